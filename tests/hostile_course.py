"""Two small courses for hostile copies, and the attacks that hand them in (tests/hostile/attacks/).

`mini` runs labo.py without a launcher, so that a copy costs a second; `duo` launches two ranks. An attack is
one file: a labo.py, or several parts parted by lines `# %% …`, or a real .ipynb. At its top it says what it
tries, and in lines `# key: value` (in a notebook: strings of its metadata's "attack") what must happen:

    # expect: score=0 flags=hard-coded      several marks, parted by |, where more than one is right
    # assignment: duo                       instead of mini
    # harmless                              may run without a box too

`flags` are those that the copy must have (none: no flag at all); without it any will do. Parts: `labo` (what
the notebook's cell writes), `cell ID` (another cell's text, or a cell of their own), `file NAME` (a file of
the copy), `link NAME -> TARGET`.

The attacker knows everything: `@ROOT@` is the course's folder, `@HOME@` the grader's, `@OUTSIDE@` a folder
that anybody may write, `@PORT@` a server on the grader's machine, `@SOCKET@` an abstract one, `@PARENT@` the
pid of a process of the grader's, `@TOKEN@` this run's own word. A printed line that begins with `STOLEN:`
says that an attack came through.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from tiny_course import ROOT, meta

from autograder import course as courses

ATTACKS = Path(__file__).parent / "hostile" / "attacks"
HONEST = ("00.honnete", "zz.honnete")   # graded before and after all the attacks

COURSE = """\
course: {id: cours-attaque, title: Un cours attaqué, language: fr, timezone: Europe/Paris, hours: 1}
session:
  {title: Une séance, teacher: A. Nonyme, start: 2031-02-03T13:00, duration: PT1H, organisation: URCA,
   campus: ici, building: un, room: deux, modes: [présentiel]}
launch: {nproc: 2, backend: gloo, time_limit_s: LIMIT, copy_limit_s: WHOLE, output_limit_kib: 64}
late: {policy: none, per_day_percent: 10, grace: PT15M}
assignments:
  - {id: NAME, title: Attaqué, points: {auto: 4, manual: 0}, release: -P2D, due: PT1H, files: [labo.py],
     data: []}
"""
# What one launch and one copy may take: short for mini, where nothing honest takes a second.
LIMITS = {"mini": (5, 20), "duo": (90, 240)}

HONEST_LABO = {
    "mini": """\
import json, os
print("somme", sum(json.loads(os.environ.get("MCI_LIGNES", "[1, 2]"))))
""",
    "duo": """\
import json, os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
k = dist.get_rank()
ligne = torch.tensor(json.loads(os.environ.get("MCI_LIGNES", "[[1, 3], [5, 7]]"))[k], dtype=torch.float32)
dist.all_reduce(ligne)
print(f"moyenne {k} {(ligne / 2).tolist()}", flush=True)
dist.destroy_process_group()
""",
}
HONEST_ANSWER = "moyenne = 3.0\nunite = 'ms'"

TEST_ANSWER = """\
from autograder import close, marks
m = marks(2)
m.answer("moyenne", moyenne, ok=close(moyenne, 3.0), points=1)
### BEGIN HIDDEN TESTS
# SECRET_SOURCE
m.answer("unite", unite, ok=unite == "ms", points=1)
### END HIDDEN TESTS
m.total()"""
TEST_LABO = {
    "mini": """\
import json
from autograder import launch, marks
### BEGIN HIDDEN TESTS
from autograder.verdict.draw import drawn
# SECRET_SOURCE
tirage = drawn("mini")
lignes = [tirage.randrange(10**6, 10**9) for _ in range(3)]   # too many to be guessed
run = launch("labo.py", launcher=False, env={"MCI_LIGNES": json.dumps(lignes)})
m = marks(2, run)
m.text(f"somme {sum(lignes)}", rank=0, points=2, secret=True)
### END HIDDEN TESTS
m.total()""",
    "duo": """\
import json
from autograder import launch, marks
### BEGIN HIDDEN TESTS
from autograder.verdict.draw import drawn
from autograder.verdict.evidence import brought_own
# SECRET_SOURCE
tirage = drawn("duo")
lignes = [[2.0 * tirage.randrange(1, 500) for _ in range(2)] for _ in range(2)]
somme = [sum(colonne) for colonne in zip(*lignes)]
moyenne = [nombre / 2 for nombre in somme]
run = launch("labo.py", env={"MCI_LIGNES": json.dumps(lignes)})
m = marks(4, run)
m.each(f"moyenne {{k}} {moyenne}", points=4, secret=True)
m.follow_inputs("MCI_LIGNES", ["moyenne 0 [3.0, 5.0]", "moyenne 1 [3.0, 5.0]"])
if m.collective("all_reduce", values=[somme, moyenne]):
    m.check(brought_own(run, "all_reduce", lignes), "Les lignes ne sont pas passées.", gate=True)
### END HIDDEN TESTS
m.total()""",
}


@dataclass(frozen=True)
class Attack:
    """One hostile copy. `marks`: what it may get, a number or None for "not graded"."""

    name: str
    text: str
    assignment: str
    harmless: bool
    marks: tuple[float | None, ...]
    flags: tuple[str, ...] | None
    about: str

    @property
    def student(self) -> str:
        return self.name.replace("_", ".")


def attacks(assignment: str | None = None) -> list[Attack]:
    found = [read(path) for path in sorted(ATTACKS.iterdir()) if path.suffix in (".py", ".ipynb")]
    return [one for one in found if assignment in (None, one.assignment)]


def read(path: Path) -> Attack:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        said = json.loads(text)["metadata"]["attack"]
        about = said[0]
    else:
        about = re.match(r'"""(.*?)"""', text, re.DOTALL)[1].strip()   # type: ignore[index]
        said = text.splitlines()
    told = [line for line in said if re.match(r"# (expect|assignment|harmless)\b", line)]
    lines = dict(line[2:].partition(":")[::2] for line in told)
    expect = dict(word.split("=", 1) for word in lines["expect"].split())
    flags = expect.get("flags")
    return Attack(
        path.stem, text, lines.get("assignment", "mini").strip(), "harmless" in lines,
        tuple(None if mark == "not_graded" else float(mark) for mark in expect["score"].split("|")),
        None if flags is None else tuple(flags.replace("none", "").split(",")) if flags != "none" else (),
        about,
    )


# ------------------------------------------------------------------------------------------- the course


def source_notebook(assignment: str, secret: str) -> nbformat.NotebookNode:
    test = {"grade": True, "locked": True}
    hole = HONEST_LABO[assignment].rstrip()
    labo = f"%%writefile labo.py\n### BEGIN SOLUTION\n{hole}\n### END SOLUTION"
    cells = [new_markdown_cell("# La leçon", id="lecon")]
    if assignment == "mini":
        answer = f"# Définissez moyenne et unite.\n### BEGIN SOLUTION\n{HONEST_ANSWER}\n### END SOLUTION"
        cells += [
            new_code_cell(answer, id="reponse", metadata=meta("reponse", solution=True)),
            new_code_cell(
                TEST_ANSWER.replace("SECRET_SOURCE", secret), id="test-reponse",
                metadata=meta("test-reponse", points=2, **test)),
        ]
    cells += [
        new_code_cell(labo, id="labo", metadata=meta("labo", solution=True)),
        new_code_cell(
            TEST_LABO[assignment].replace("SECRET_SOURCE", secret), id="test-labo",
            metadata=meta("test-labo", points=2 if assignment == "mini" else 4, **test)),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def make_course(root: Path, assignment: str, secrets: dict[str, str]) -> courses.Course:
    """The course in `root`, with its key and a gradebook that hold a secret each."""
    root.mkdir(parents=True)
    limit, whole = LIMITS[assignment]
    yaml = COURSE.replace("NAME", assignment).replace("LIMIT", str(limit)).replace("WHOLE", str(whole))
    (root / "course.yaml").write_text(yaml, encoding="utf-8")
    shutil.copyfile(ROOT / "nbgrader_config.py", root / "nbgrader_config.py")
    folder = root / "source" / assignment
    folder.mkdir(parents=True)
    nbformat.write(source_notebook(assignment, secrets["source"]), folder / f"{assignment}.ipynb")
    key = root / courses.KEY_FILE
    key.parent.mkdir()
    key.write_bytes(secrets["key"].encode().ljust(courses.KEY_BYTES, b"k")[: courses.KEY_BYTES])
    key.chmod(0o600)
    course = courses.load(root)
    from nbgrader.api import Gradebook

    from autograder.notebook.nbconfig import gradebook_url, tools_on_path

    tools_on_path()
    with Gradebook(gradebook_url(course), course.course.id) as gradebook:
        gradebook.add_student("canari", first_name=secrets["gradebook"])
    for student in HONEST:
        labo = HONEST_LABO[assignment] + f"# {student} {secrets['copy']}\n"
        hand_in(root, student, assignment, {"labo": labo, "cell reponse": HONEST_ANSWER}, {})
    return course


def hand_in(
    root: Path, student: str, assignment: str, parts: dict[str, str], words: dict[str, str],
    notebook: str | None = None,
) -> None:
    """Fill submitted/<student>/<assignment>/ with what an attack is made of."""
    from autograder.notebook.repair import skeleton, untouched

    folder = root / "submitted" / student / assignment
    folder.mkdir(parents=True)
    made = untouched(skeleton(source_notebook(assignment, "")))
    cells = {cell.id: cell for cell in made.cells}
    for part, content in parts.items():
        kind, _, name = part.partition(" ")
        if kind == "labo":
            cells["labo"].source = f"%%writefile labo.py\n{content}"
        elif kind == "cell" and name in cells:
            cells[name].source = content
        elif kind == "cell":
            made.cells.append(new_code_cell(content, id=name))
        elif kind == "file":
            (folder / name).write_text(content, encoding="utf-8")
        elif kind == "link":
            link, _, target = name.partition(" -> ")
            (folder / link).symlink_to(filled(target, words))
    text = notebook or filled(json.dumps(made), words)
    (folder / f"{assignment}.ipynb").write_text(text, encoding="utf-8")
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.suffix != ".ipynb":
            path.write_text(filled(path.read_text(encoding="utf-8"), words), encoding="utf-8")


def hand_in_attack(root: Path, attack: Attack, words: dict[str, str]) -> None:
    if attack.text.lstrip().startswith("{"):
        hand_in(root, attack.student, attack.assignment, {}, {}, notebook=filled(attack.text, words))
    else:
        hand_in(root, attack.student, attack.assignment, parts_of(attack.text), words)


def parts_of(text: str) -> dict[str, str]:
    """The parts of an attack's file; one without any is a labo.py."""
    pieces = re.split(r"^# %% (.*)$", text, flags=re.MULTILINE)
    if len(pieces) == 1:
        return {"labo": text}
    named = zip(pieces[1::2], pieces[2::2], strict=True)
    return {name.strip(): content.strip("\n") + "\n" for name, content in named}


def filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def results(root: Path, assignment: str) -> dict[str, dict[str, Any]]:
    """The kept results, by student."""
    folder = root / ".autograder" / "results" / assignment
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
