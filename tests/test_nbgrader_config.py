"""nbgrader is told everything by course.yaml, and nothing else holds a date."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import release_course as tiny
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.course import Course, load
from autograder.notebook.gradebook import sync_gradebook
from autograder.notebook.nbconfig import configure, utc_naive
from autograder.notebook.stubs import CODE_STUB, TEXT_STUB


def read_config(root: Path) -> Any:
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


@pytest.fixture
def small(tmp_path: Path, root: Path) -> Course:
    folder = tiny.write_course(tmp_path / "élève n°1 (copie)")
    (folder / "nbgrader_config.py").write_bytes((root / "nbgrader_config.py").read_bytes())
    return load(folder)


def test_the_repository_s_config_comes_from_its_course_file(root: Path) -> None:
    course, config = load(root), read_config(root)
    assert config.CourseDirectory.course_id == course.course.id
    assert config.CourseDirectory.root == str(root)
    assert config.CourseDirectory.db_url == f"sqlite:///{root}/gradebook.db"
    assert config.Autograde.exclude_overwriting == {one.id: one.files for one in course.assignments}
    assert config.Exchange.timezone == course.course.timezone
    assert config.FileNameCollectorPlugin.valid_ext == [".ipynb", ".json", ".py", ".txt"]
    assert config.ClearSolutions.code_stub == {"python": CODE_STUB}
    assert config.ClearSolutions.text_stub == TEXT_STUB


def test_another_course_gives_another_config(small: Course) -> None:
    config = read_config(small.root)
    assert config.CourseDirectory.course_id == "petit"
    assert config.CourseDirectory.root == str(small.root)
    assert config.Autograde.exclude_overwriting == {"ex1": ["labo.py"], "ex2": ["mot.md"]}
    assert config.FileNameCollectorPlugin.valid_ext == [".ipynb", ".md", ".py", ".txt"]


def test_every_plugin_named_exists_and_nbgrader_takes_it(root: Path) -> None:
    from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.plugins.zipcollect import FileNameCollectorPlugin
    from nbgrader.preprocessors import AssignLatePenalties
    from traitlets.utils.importstring import import_item

    config = read_config(root)
    courses = CourseDirectory(config=config)
    lists = [
        GenerateAssignment(coursedir=courses, config=config).preprocessors,
        Autograde(coursedir=courses, config=config).sanitize_preprocessors,
        Autograde(coursedir=courses, config=config).autograde_preprocessors,
        GenerateFeedback(coursedir=courses, config=config).preprocessors,
    ]
    for names in lists:
        assert names[0] and all(isinstance(import_item(name), type) for name in names)
    assert isinstance(AssignLatePenalties(config=config).plugin_class, type)
    assert FileNameCollectorPlugin(config=config).valid_ext == [".ipynb", ".json", ".py", ".txt"]


def test_the_settings_are_traits_that_nbgrader_has(root: Path) -> None:
    """A misspelt setting is silently ignored by nbgrader: each one is looked up on its class."""
    import nbconvert.exporters
    import nbgrader.apps
    import nbgrader.converters
    import nbgrader.coursedir
    import nbgrader.exchange.abc
    import nbgrader.plugins.zipcollect
    import nbgrader.preprocessors

    places = [
        nbgrader.apps, nbgrader.converters, nbgrader.coursedir, nbgrader.exchange.abc,
        nbgrader.plugins.zipcollect, nbgrader.preprocessors, nbconvert.exporters,
    ]  # fmt: skip
    for section, values in read_config(root).items():
        owner = next(getattr(place, section) for place in places if hasattr(place, section))
        unknown = set(values) - set(owner.class_traits(config=True))
        assert not unknown, f"{section} has no setting {unknown}"


def test_a_moodle_download_is_understood(root: Path) -> None:
    pattern = read_config(root).FileNameCollectorPlugin.named_regexp
    name = "/tmp/zip/Éloïse D'Août_1234567_assignsubmission_file_/rendu/ex1-rang.ipynb"
    found = re.match(pattern, name)
    assert found is not None
    assert found["student_id"] == "1234567" and found["file_id"] == "ex1-rang.ipynb"
    assert found["first_name"] == "Éloïse D'Août"


def test_alembic_is_on_path_though_the_environment_is_not_activated(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    configure(Config(), load(root))
    first = os.environ["PATH"].split(os.pathsep)[0]
    assert Path(first) == Path(sys.executable).parent
    configure(Config(), load(root))
    assert os.environ["PATH"].split(os.pathsep).count(first) == 1


def test_the_gradebook_says_what_the_source_and_the_course_file_say(small: Course) -> None:
    from nbgrader.api import Gradebook

    sync_gradebook(small)
    with Gradebook(f"sqlite:///{small.root}/gradebook.db", "petit") as gradebook:
        first = gradebook.find_assignment("ex1")
        assert first.duedate == utc_naive(small.assignment("ex1").due) == datetime(2031, 3, 27, 11)
        assert (first.max_code_score, first.max_written_score) == (3, 2)
        gradebook.update_or_create_student("élève")
        gradebook.update_or_create_submission("ex1", "élève")
    later = tiny.COURSE.replace("2031-03-27T13:00", "2031-06-10T13:00")
    (small.root / "course.yaml").write_text(later, encoding="utf-8")
    sync_gradebook(load(small.root), ["ex1"])
    with Gradebook(f"sqlite:///{small.root}/gradebook.db", "petit") as gradebook:
        assert gradebook.find_assignment("ex1").duedate == datetime(2031, 6, 10, 10)
        assert len(gradebook.find_assignment("ex1").submissions) == 1


def test_nbgrader_s_own_command_gives_our_release(small: Course, tmp_path: Path) -> None:
    from autograder.notebook.release import generate

    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "ex1"]
    done = subprocess.run(command, cwd=small.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    theirs = small.root / "release" / "ex1" / "ex1.ipynb"
    assert theirs.read_bytes() == generate(small, "ex1", tmp_path / "out")[0].read_bytes()


def test_nbgrader_s_own_command_refuses_a_solution_left_in_source(small: Course) -> None:
    (small.root / "source" / "ex1" / "labo.py").write_text("rang_lu = 1\n")
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "ex1"]
    done = subprocess.run(command, cwd=small.root, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "labo.py" in done.stderr
    assert not (small.root / "release" / "ex1" / "labo.py").exists()


# ------------------------------------------------------------------------------------ one date, one place

_MONTHS = {
    1: "janvier|january", 2: "février|february", 3: "mars|march", 4: "avril|april", 5: "mai|may",
    6: "juin|june", 7: "juillet|july", 8: "août|august", 9: "septembre|september", 10: "octobre|october",
    11: "novembre|november", 12: "décembre|december",
}  # fmt: skip


def tracked(root: Path) -> list[Path]:
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode().split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def test_nothing_but_the_course_file_holds_a_date_of_the_session(root: Path) -> None:
    course = load(root)
    days = {course.session.start, course.session.end}
    days |= {moment for one in course.assignments for moment in (one.release, one.due)}
    wanted = [rf"(?<![\d.]){year}(?![\d.])" for year in {day.year for day in days}]
    for day in days:
        month = _MONTHS[day.month]
        wanted += [rf"\b{day.day}\s+({month})\b", rf"\b({month})\s+{day.day}\b"]
    pattern = re.compile("|".join(sorted(set(wanted))), re.IGNORECASE)
    found = []
    for path in tracked(root):
        if path.name == "course.yaml" and path.parent == root:
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        name = path.relative_to(root)
        found += [f"{name}:{n}: {line[:80]}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    assert found == []


def test_the_course_file_itself_holds_one_date(root: Path) -> None:
    text = re.sub(r"#.*", "", (root / "course.yaml").read_text(encoding="utf-8"))
    assert len(re.findall(r"\d{4}-\d\d-\d\d", text)) == 1
