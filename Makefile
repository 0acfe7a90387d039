# `make demo` and `make test` do all the set-up on a fresh machine that has Python 3.11 or later.
#   TORCH_INDEX=…       the index of torch's small CPU build, where pip would take CUDA's
#   PYTHON=python3.12   another interpreter for the virtual environment

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INDEX := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
# Demo and tests are the course's own: a PATH with the environment first, so that torchrun is its torchrun.
export PATH := $(CURDIR)/$(BIN):$(PATH)

DEMO := .demo
# The class holds copies of the solutions, which the proofs have launched already: each script is launched once.
DEMO_RUNS := $(CURDIR)/$(DEMO)/.autograder/runs/demo
# An ISO 8601 duration before the session: no date stands here.
AS_OF := -P7D

.PHONY: help demo test lint release pictures clean

help:
	@echo 'make demo      release the course, grade a sample class, show who got what and why'
	@echo 'make test      ruff, mypy, then every test'
	@echo 'make lint      ruff and mypy only'
	@echo 'make release   prove the assignments, then write release/'
	@echo 'make pictures  take the screenshots of docs/img again'
	@echo 'make clean     remove the demo and the caches; submissions and marks are kept'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(INDEX) -e '.[dev]'
	touch $@

# The demo has a copy of the course in .demo/: its gradebook, release and marks never touch the repository's.
demo: $(READY)
	rm -rf $(DEMO)
	mkdir -p $(DEMO)
	cp -R course.yaml nbgrader_config.py source pages $(DEMO)/
	@echo '── 1. prove the assignments and write their release'
	cd $(DEMO) && AUTOGRADER_RUNS=$(DEMO_RUNS) ../$(BIN)/autograder release --as-of=$(AS_OF)
	@echo '── 2. a sample class hands in'
	$(BIN)/python examples/make_class.py $(DEMO)/inbox --course $(DEMO)
	cd $(DEMO) && ../$(BIN)/autograder collect inbox/submitted
	@echo '── 3. grade it: each labo.py is launched under torchrun with gloo'
	@# 3: some copy could not be graded, which the sample class has on purpose.
	cd $(DEMO) && AUTOGRADER_RUNS=$(DEMO_RUNS) ../$(BIN)/autograder grade --sandbox=auto || [ $$? -eq 3 ]
	@echo '── 4. the class on one page'
	cd $(DEMO) && ../$(BIN)/autograder report
	@echo
	@echo 'Where to look:'
	@echo '  $(DEMO)/report/classe.html                  the class, in a browser: marks, causes, what is left to mark'
	@echo '  $(DEMO)/feedback/<student>/<assignment>/    what each student reads'
	@echo '  $(DEMO)/release/                            what students get'
	@echo '  cd $(DEMO) && ../$(BIN)/jupyter lab         formgrader: the written answers, graded by hand'

test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

release: $(READY)
	$(BIN)/autograder release

pictures: $(READY)
	$(BIN)/python tests/take_pictures.py

clean:
	rm -rf $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
