"""What a student and a grader do in JupyterLab, click by click, for tests/test_browser.py and the pictures.

Each story takes `look`, called with a name wherever there is something to be seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from browser import ROOT, Lab, wait

from autograder import course as courses
from autograder.notebook.cells import written_file
from autograder.notebook.variants import solution_files, without_markers

ASSIGNMENT = "ex1-rang"
STUDENT = "marie.curie"
DESK = "cours"  # where the student unzipped the bundle, in the course's folder: one server serves both
WRONG = ROOT / "tests" / "wrong" / ASSIGNMENT / "wrong_name.py"
WRITTEN = (
    "1. Le processus de RANK 1 prendrait le GPU d'indice 1 : il le sait par LOCAL_RANK.\n"
    "2. NCCL demande l'usage exclusif de chaque GPU qu'un processus touche.\n"
    "3. Sur le second nœud, les processus de RANK 4 à 7 demandent des GPU 4 à 7 qui n'y sont pas."
)
POINTS, COMMENT = "3.5", "Juste. Dites aussi ce que devient le premier nœud."

# Launches are read back where they were made before: it is the browser that is looked at.
SAVED = {
    "AUTOGRADER_KEY_FILE": str(ROOT / "tests" / "data" / "test.key"),
    "AUTOGRADER_RUNS": str(ROOT / "tests" / "runs"),
}

Look = Callable[[str], None]


def no_look(_: str) -> None:
    """A test looks at conditions."""


def a_course(root: Path) -> courses.Course:
    """A course of one assignment, a session far away, and a student's desk beside its source."""
    root.mkdir()
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    config += "get_config().Execute.timeout = 600\n"  # Validate gives a cell 30 s: too few on a busy machine
    (root / "nbgrader_config.py").write_text(config, encoding="utf-8")
    text = (ROOT / "course.yaml").read_text(encoding="utf-8")
    start = text.index("  start: ")
    text = text[:start] + "  start: 2099-01-08T13:00" + text[text.index("\n", start):]
    first, rest = text[: text.index("  - id: ex2-moyenne")], text[text.index("# Files of pages/"):]
    (root / "course.yaml").write_text(first + "\n" + rest, encoding="utf-8")
    for side in ("source", "release"):
        shutil.copytree(ROOT / side / ASSIGNMENT, root / side / ASSIGNMENT)
    for name in (ASSIGNMENT, "pages"):
        shutil.copytree(ROOT / "release" / name, root / DESK / name)
    shutil.copy(root / "course.yaml", root / DESK)
    return courses.load(root)


@dataclass(frozen=True)
class Answers:
    """What the student writes: {cell id: text}, and the position of each cell in the notebook."""

    texts: dict[str, str]
    places: dict[str, int]


def answers() -> Answers:
    """The solution's, and a written answer of ours."""
    source, released = (
        nbformat.read(ROOT / side / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
        for side in ("source", "release")
    )
    files, texts = solution_files(source), {}
    for cell in source.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            name = written_file(cell.source)
            right = f"%%writefile {name}\n{files[name].rstrip()}" if name else without_markers(cell.source)
            texts[cell.id] = WRITTEN if cell.cell_type == "markdown" else right
    return Answers(texts, {cell.id: place for place, cell in enumerate(released.cells)})


class Notebook:
    """The notebook that is open in JupyterLab."""

    def __init__(self, driver: Any, lab: Lab, path: str, places: dict[str, int]) -> None:
        self.driver, self.places = driver, places
        driver.get(lab.url(f"lab/tree/{path}"))
        idle = '.jp-Notebook-ExecutionIndicator[data-status="idle"]'
        wait(driver, lambda d: len(self.cells()) == len(places), "the notebook is open")
        wait(driver, lambda d: d.find_elements("css selector", idle), "its kernel is ready")
        wait(driver, lambda d: d.find_elements("css selector", ".validate-button"), "Validate is there")

    def cells(self) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", ".jp-Notebook .jp-Cell")
        return found

    def cell(self, name: str) -> Any:
        return self.cells()[self.places[name]]

    def _editor(self, name: str) -> Any:
        """Its editor with the cursor in it; a text cell's opens with a double click."""
        from selenium.webdriver import ActionChains

        def focused(driver: Any) -> Any:
            cell = self.cell(name)
            driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", cell)
            rendered = cell.find_elements("css selector", ".jp-RenderedMarkdown")
            if rendered and rendered[0].is_displayed():
                ActionChains(driver).double_click(rendered[0]).perform()
            editor = cell.find_element("css selector", ".cm-content")
            editor.click()
            return driver.switch_to.active_element == editor and editor

        return wait(self.driver, focused, f"the cursor is in {name}")

    def write(self, name: str, text: str) -> None:
        """Select all that the cell holds and paste `text` over it."""
        from selenium.webdriver import Keys

        editor = self._editor(name)
        editor.send_keys(Keys.CONTROL, "a")
        self.driver.execute_script(
            "const data = new DataTransfer(); data.setData('text/plain', arguments[1]);"
            "arguments[0].dispatchEvent(new ClipboardEvent('paste',"
            " {clipboardData: data, bubbles: true, cancelable: true}))",
            editor, text,
        )  # fmt: skip
        last = text.splitlines()[-1].strip()
        wait(self.driver, lambda d: last in self._editor(name).text, f"{name} holds what was pasted")

    def run(self, name: str, says: str) -> str:
        """Run the cell; what stands under it, once it has run and that has `says` in it."""
        from selenium.webdriver import Keys

        before = self._prompt(name)
        self._editor(name).send_keys(Keys.CONTROL, Keys.ENTER)

        def said(_: Any) -> Any:
            output = self.cell(name).find_element("css selector", ".jp-OutputArea").text
            return "*" not in self._prompt(name) != before and says in output and [output]

        return str(wait(self.driver, said, f"{name} says {says!r}")[0])

    def _prompt(self, name: str) -> str:
        """`[ ]:`, `[*]:` while it runs, then the number of its last run."""
        return str(self.cell(name).find_element("css selector", ".jp-InputPrompt").text)

    def show(self, name: str) -> None:
        """Bring what stands under the cell into view."""
        output = self.cell(name).find_element("css selector", ".jp-OutputArea-output")
        self.driver.execute_script(
            "document.querySelectorAll('.cm-scroller').forEach(one => { one.scrollLeft = 0 });"
            "arguments[0].scrollIntoView({block: 'end'})",
            output,
        )  # fmt: skip

    def validate(self, look: Callable[[], None] = lambda: None) -> str:
        """Press Validate; what nbgrader's window then says."""
        self.driver.find_element("css selector", ".validate-button").click()
        window = ".nbgrader-ValidateDialog, .jp-Dialog"
        found = wait(self.driver, lambda d: d.find_element("css selector", window), "Validate has answered")
        said = str(wait(self.driver, lambda _: found.text, "Validate says something"))
        look()
        found.find_element("css selector", "button.jp-mod-accept").click()
        wait(self.driver, lambda d: not d.find_elements("css selector", window), "its window is closed")
        return said


def student(driver: Any, lab: Lab, look: Look = no_look) -> dict[str, str]:
    """Write a faulty labo.py, read the check, mend it, answer, press Validate; what was said on the way."""
    given = answers()
    notebook = Notebook(driver, lab, f"{DESK}/{ASSIGNMENT}/{ASSIGNMENT}.ipynb", given.places)
    said = {}
    notebook.write("ex1-labo", "%%writefile labo.py\n" + WRONG.read_text(encoding="utf-8").rstrip())
    notebook.run("ex1-labo", "labo.py")
    said["failing"] = notebook.run("ex1-test-deux-rangs", "✘")
    notebook.show("ex1-test-deux-rangs")
    look("student-failing")
    for name, text in given.texts.items():
        notebook.write(name, text)
    notebook.run("ex1-reponse-prediction", "")
    notebook.run("ex1-labo", "labo.py")
    said["passing"] = notebook.run("ex1-test-deux-rangs", "✔")
    notebook.show("ex1-test-deux-rangs")
    look("student-passing")
    said["validate"] = notebook.validate(lambda: look("student-validate"))
    return said


def typed(folder: Path, *arguments: str, module: str = "autograder.cli") -> str:
    """A command typed in `folder`, which ends well; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, encoding="utf-8",
        env=os.environ | SAVED | {
            "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "COLUMNS": "110",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        },
    )  # fmt: skip
    assert done.returncode == 0, f"{module} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def hand_in_and_grade(root: Path) -> str:
    """From the student's desk to the gradebook; the table that the grader sees."""
    typed(root / DESK, "pack", ASSIGNMENT, "--id", STUDENT)
    typed(root, "collect", f"{DESK}/{ASSIGNMENT}-{STUDENT}.zip")
    return typed(root, "grade", ASSIGNMENT, "--sandbox=auto")


def grader(driver: Any, lab: Lab, look: Look = no_look) -> None:
    """Nbgrader › Formgrader › Manual Grading › the written answer: points and a comment."""
    from selenium.webdriver import Keys

    def click(selector: str, text: str) -> None:
        def clicked(d: Any) -> bool:
            found = [one for one in d.find_elements("css selector", selector) if one.text.strip() == text]
            if not found:
                return False
            found[0].click()
            return True

        wait(driver, clicked, f"{text!r} can be clicked")

    driver.get(lab.url("lab?reset"))
    click(".lm-MenuBar-itemLabel", "Nbgrader")
    click(".lm-Menu-itemLabel", "Formgrader")
    frame = wait(driver, lambda d: d.find_element("css selector", "iframe"), "formgrader is open")
    driver.switch_to.frame(frame)
    try:
        click("a", "Manual Grading")
        click("td.name a", ASSIGNMENT)
        click("td.name a", ASSIGNMENT)
        wait(driver, lambda d: d.find_element("css selector", "td.name a"), "the submission is listed")
        driver.execute_script("document.querySelector('td.name a').click()")
        answer = "ex1-question-un-processus"
        loaded = "return window.formgrader && formgrader.grades.loaded && formgrader.comments.loaded"
        wait(driver, lambda d: d.execute_script(loaded), "the marks are loaded")
        points = driver.find_element("id", answer)
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", points)
        points.clear()
        points.send_keys(POINTS)
        comment = driver.find_element("id", f"{answer}-comment")
        comment.send_keys(COMMENT)
        comment.send_keys(Keys.TAB)  # what one leaves is saved
        saved = (
            "const of = all => all.findWhere({name: arguments[0]}) || new Backbone.Model();"
            "return jQuery.active === 0 && of(formgrader.grades).get('manual_score') == arguments[1]"
            " && of(formgrader.comments).get('manual_comment') === arguments[2]"
        )
        wait(driver, lambda d: d.execute_script(saved, answer, POINTS, COMMENT), "the mark is saved")
        look("grader-formgrader")
    finally:
        driver.switch_to.default_content()
