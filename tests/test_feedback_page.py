"""The page that a student gets back: its order, what is not in it, and how the real browser finds it."""

from __future__ import annotations

import base64
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_course
from browser import accessibility, chromium, open_file, requested
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from runs_made import a_run, call, log
from test_timeline import living, saved
from traitlets.config import Config

from autograder import course as courses
from autograder.launch.run import Request, Run
from autograder.notebook.examine import outputs
from autograder.notebook.feedback import COMPILED, FeedbackPage, inline
from autograder.notebook.feedback_page import gather
from autograder.notebook.headings import Headings
from autograder.notebook.launches import drawn, with_launches
from autograder.notebook.nbconfig import configure
from autograder.notebook.result import CopyResult, TestResult
from autograder.notebook.testcells import Outcome
from autograder.report.launches import bundles, pictures, read, tidy
from autograder.report.run_view import check_view
from autograder.verdict import marks as marks_api
from autograder.verdict.outcome import TestFailed
from autograder.verdict.shown import MIME

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> courses.Course:
    return tiny_course.make_course(tmp_path_factory.mktemp("cours"))


def judged(
    run: Run, ident: str = "t1", points: float = 2, secret: bool = False, text: str = "sort 0"
) -> Outcome:
    """One test cell's outcome, as the trusted process makes it."""
    m = marks_api.marks(points, run, secret=secret)
    m.text(text, rank=0, points=points, advice="Relisez `sort k`.")
    try:
        earned, report = float(m.total() or 0), ""
    except TestFailed as error:
        earned, report = 0.0, str(error)
    said = marks_api.LAST
    assert said is not None
    status: Any = "passed" if earned == points else "failed"
    return Outcome(ident, status, earned, points, said.message, said.advice, report=report,
                   launches=tuple(said.launches))  # fmt: skip


def test_cell(outcome: Outcome, source: str = "# Lance labo.py.\nm.total()") -> Any:
    kept = with_launches({outcome.id: outputs(outcome, outcome.max_points)}, [outcome])[outcome.id]
    marks = {"points": outcome.max_points, "score": outcome.points}
    meta = tiny_course.meta(outcome.id, grade=True, locked=True, **marks)
    return new_code_cell(source, metadata=meta, outputs=[new_output(**one) for one in drawn(kept)])


test_cell.__test__ = False  # type: ignore[attr-defined]


def answer_cell(source: str = "Parce que.", comment: str | None = None, **more: Any) -> Any:
    meta = tiny_course.meta("ecrit", grade=True, solution=True, points=4, comment=comment, **more)
    return new_markdown_cell(source, metadata=meta)


def page(course: courses.Course, *cells: Any, **info: Any) -> str:
    """The page of a copy of these cells, made as nbgrader's converter makes it."""
    config: Any = Config()
    configure(config, course)
    exporter = FeedbackPage(config=config)
    notebook = new_notebook(cells=[new_markdown_cell("# La leçon\n\n### Un saut"), *cells])
    known = {"assignment": "mini", "student": "marie.curie", "score": 3.5, "max_score": 10} | info
    told = known | {"page": gather(notebook, known, course), "headings": Headings()}
    made, _ = exporter.from_notebook_node(notebook, resources={"nbgrader": told})
    return str(made)


def words(made: str) -> str:
    body = BeautifulSoup(made, "html.parser").find("body")
    assert body is not None
    return re.sub(r"\s+", " ", body.get_text(" "))


HANG = "154bee0f8d44"   # rank 1 skips, rank 0 gives up waiting after 5 s


# -- what it says, and in which order ----------------------------------------------------------------------


def test_the_mark_then_what_to_do_the_tests_the_ranks_the_comments_the_copy(course: courses.Course) -> None:
    made = page(course, test_cell(judged(saved(HANG))), answer_cell(comment="Bien vu."))
    titles = [title.get_text() for title in BeautifulSoup(made, "html.parser").find_all("h2")]
    assert titles == ["Votre note", "Que faire maintenant", "Les tests", "Ce qui s'est passé sur chaque rang",
                      "Commentaires", "Votre copie"]  # fmt: skip
    said = words(made)
    assert "3,5 / 10" in said and "Test t1 : à revoir, 0 / 2 points".replace(" :", "\u00a0:") in made
    assert "le texte « sort 0 » est absent".replace("« ", "«\u00a0").replace(" »", "\u00a0»") in made
    assert "Bien vu." in said and 'lang="fr"' in made


def test_what_to_do_next_is_the_first_thing_to_try_of_each_test(course: courses.Course) -> None:
    made = page(course, test_cell(judged(saved(HANG))))
    steps = BeautifulSoup(made, "html.parser").find("ol", class_="steps")
    assert steps is not None and "Cherchez ce qui écarte le rang 1" in steps.get_text()
    assert steps.find("a")["href"] == "#fb-test-1"  # type: ignore[index]


def test_nothing_to_do_when_all_is_right(course: courses.Course) -> None:
    right = a_run(log(0, "sort 0"), log(1))
    assert "il n'y a rien à reprendre" in words(page(course, test_cell(judged(right))))
    waiting = page(course, test_cell(judged(right)), answer_cell(pending=True))
    assert "Note provisoire" in words(waiting) and "pas encore lue" in words(waiting)


def test_a_copy_that_is_not_graded_shows_its_cause_and_no_zero(course: courses.Course) -> None:
    refused = Outcome("t1", "not_graded", 0.0, 2, "`mini.ipynb` est vide. Déposez-le de nouveau.")
    made = page(course, test_cell(refused), score=0)
    assert "aucun point n'est perdu" in words(made) and "0 / 10" not in words(made)
    steps = BeautifulSoup(made, "html.parser").find("ol", class_="steps")
    assert steps is not None and "Déposez-le de nouveau" in steps.get_text()


def test_a_copy_that_was_not_read_is_asked_for_nothing_that_it_may_have_held(course: courses.Course) -> None:
    refused = Outcome("t1", "not_graded", 0.0, 2, "`mini.ipynb` est tronqué. Déposez-le de nouveau.")
    given = new_code_cell("moyenne = …", metadata=tiny_course.meta("r", solution=True, unread=True))
    made = words(page(course, test_cell(refused), given, answer_cell(unread=True), score=0))
    assert "Copie non notée" in made and "Note provisoire" not in made and "sans texte" not in made
    assert "non lue" in made and "sans réponse" not in made and "– / 4" in made and "0 / 4" not in made


def test_only_written_answers_are_written_answers(course: courses.Course) -> None:
    empty = new_code_cell("…", metadata=tiny_course.meta("r", solution=True, comment="No response."))
    made = words(page(course, empty, answer_cell(comment="No response.", score=0)))
    assert "1 réponse écrite sans texte" in made


def test_a_copy_without_a_mark_has_no_mark_that_is_provisional(course: courses.Course) -> None:
    busy = Outcome("t1", "not_graded", 0.0, 2, "La machine était occupée.")
    made = words(page(course, test_cell(busy), answer_cell(pending=True), score=0))
    assert "Copie non notée" in made and "Note provisoire" not in made and "pas encore lue" in made


def test_a_picture_without_a_description_says_so(course: courses.Course) -> None:
    src = "data:image/png;base64,iVBORw0KGgo="
    written = f'<img src="{src}">\n\n![]({src})\n\n![un schéma]({src})\n\n`<img src=x>`'
    made = page(course, answer_cell(written))
    told = [picture.get("alt") for picture in BeautifulSoup(made, "html.parser").find_all("img")]
    assert told == ["Image sans description", "", "un schéma"]


def test_a_late_penalty_and_an_unanswered_question_are_told(course: courses.Course) -> None:
    made = words(page(course, answer_cell(comment="No response.", score=0), late_penalty=1.25))
    assert "1,25" in made and "sans réponse" in made and "No response" not in made
    assert "1 réponse écrite sans texte" in made and "il n'y a rien à reprendre" not in made
    assert "Lisez les commentaires" not in made


def test_each_launch_is_drawn_once_with_the_ranks_apart(course: courses.Course) -> None:
    first, second = judged(saved(HANG)), judged(saved(HANG), "t2")
    kept = with_launches({one.id: outputs(one, 2) for one in (first, second)}, [first, second])
    assert "command" in kept["t1"][0]["data"][MIME]["launches"][0]
    assert set(kept["t2"][0]["data"][MIME]["launches"][0]) == {"id"}
    made = page(course, test_cell(first), test_cell(second))
    soup = BeautifulSoup(made, "html.parser")
    assert len(soup.find_all("figure")) == 1 and made.count("href=\"#fb-lancement-1\"") == 2
    ranks = {title.get_text().split(" (")[0]: title.find_next("pre").get_text()  # type: ignore[union-attr]
             for title in soup.select(".rank h4")}  # fmt: skip
    assert ranks == {"Rang 0": "entre 0", "Rang 1": "saute 1"}


def test_the_noise_of_torch_is_left_out_and_what_tells_stays() -> None:
    said = tidy(saved(HANG).ranks[0].stderr)
    assert "[rank0]" not in said and "^^^^" not in said and "/__w/" not in said
    assert "Timed out waiting 5000ms" in said and 'File "labo.py", line 22' in said
    assert tidy("10%\r100%\n\x1b[31mrouge\x1b[0m\n\n\n\nfin") == "100%\nrouge\n\nfin"
    assert len(tidy("\n".join(map(str, range(5_000)))).splitlines()) < 90


# -- what is not in it -------------------------------------------------------------------------------------


def test_no_output_of_a_launch_that_expects_hidden_values(course: courses.Course) -> None:
    run = a_run(log(0, "moyenne 0 [41.5, 30.0]"), log(1), events=tuple(living(0, 1)),
                collectives=[call(0, at=1.1, returned=3.0), call(1, at=2.9, returned=3.0)],
                request=Request(env={"MCI_LIGNES": "[[41, 30], [42, 30]]"}))  # fmt: skip
    passed = judged(run, secret=True, text="moyenne 0 [41.5, 30.0]")
    assert passed.status == "passed" and passed.launches == ()
    failed = judged(run, secret=True)
    assert [one["ranks"] for one in failed.launches] == [[]] and failed.launches[0]["timeline"]
    made = page(course, test_cell(failed))
    assert "41.5" not in made and "test caché" in words(made)


def test_a_hidden_launch_is_not_named_by_a_test_that_failed_about_another_one() -> None:
    main, drawn_one = a_run(log(0), log(1)), saved("25551694fc14")
    m = marks_api.marks(3, drawn_one, secret=True)
    m.check(False, "Le texte manque.", gate=True, run=main)
    m.text("moyenne 0 [41.5, 30.0]", points=3)
    with pytest.raises(TestFailed):
        m.total()
    assert marks_api.LAST is not None
    assert drawn_one.request.env and "RALENTI" not in str(marks_api.LAST.launches)


def test_what_a_student_wrote_or_printed_never_acts(course: courses.Course) -> None:
    run = a_run(log(0, HOSTILE), log(1, err=HOSTILE), events=tuple(living(0, 1)), exit_code=1,
                collectives=[call(0, HOSTILE, at=1.1, returned=None)])  # fmt: skip
    cells = [
        test_cell(judged(run)), answer_cell(HOSTILE, comment=HOSTILE),
        new_code_cell(HOSTILE, outputs=[
            new_output("stream", text=HOSTILE),
            new_output("display_data", data={"text/html": HOSTILE, "image/svg+xml": f"<svg>{HOSTILE}</svg>"}),
            new_output("display_data", data={"image/svg+xml": f"<svg>{HOSTILE}</svg>", "text/plain": "x"}),
            new_output("error", ename="E", evalue=HOSTILE, traceback=[HOSTILE]),
        ]),
    ]  # fmt: skip
    made = page(course, *cells, student=HOSTILE)
    soup = BeautifulSoup(made, "html.parser")
    assert not soup.find_all(["script", "iframe", "object", "embed", "form", "input"])
    assert not [tag for tag in soup.find_all(True) if any(name.startswith("on") for name in tag.attrs)]
    assert "\x1b" not in made.partition('id="fb-copie"')[0]
    # A student's own SVG is an image, in which nothing runs; the ones in the page itself are ours.
    ours = soup.find_all("svg")
    assert all(one.find_parent("figure") for one in ours)
    pictures = [base64.b64decode(one["src"].partition(",")[2]) for one in soup.find_all("img", src=True)]
    assert pictures == [f"<svg>{HOSTILE}</svg>".encode()]


def test_launches_forged_in_a_student_s_own_cell_are_not_read(course: courses.Course) -> None:
    forged = drawn(with_launches({"t1": [{}]}, [judged(saved(HANG))])["t1"])[0]
    mine = new_code_cell("x", outputs=[new_output(**forged)])
    assert "fb-lancement" not in page(course, mine)


@pytest.mark.parametrize(
    "data", [None, [], {"launches": 3}, {"launches": [1, {}, {"id": "x", "command": "y"}]}]
)
def test_launches_of_any_other_shape_are_left_out(data: object) -> None:
    assert read(data) == []


def test_nothing_is_loaded_from_elsewhere(course: courses.Course) -> None:
    made = page(course, test_cell(judged(saved(HANG))), answer_cell("Voir [ceci](https://pytorch.org)."))
    soup = BeautifulSoup(made, "html.parser")
    loads = [tag.get(name, "") for tag in soup.find_all(True) for name in ("src", "srcset", "data", "poster")]
    loads += [tag.get("href", "") for tag in soup.find_all(["link", "use", "image"])]
    assert not [one for one in loads if one and not str(one).startswith("data:")]
    styles = " ".join(style.get_text() for style in soup.find_all("style"))
    assert "@import" not in styles and not re.search(r"url\((?!#)", styles) and not soup.find("base")
    assert "https://pytorch.org" in made  # a link is followed by who reads, not by the page


def test_a_page_is_bounded_whatever_was_printed(course: courses.Course) -> None:
    loud = a_run(log(0, "x" * 900_000 + "\n" + "y\n" * 200_000), log(1, err="z" * 500_000))
    outcomes = [judged(loud, f"t{number}") for number in range(30)]
    assert len(str(outcomes[0].launches)) < 30_000
    assert len(page(course, *map(test_cell, outcomes))) < 400_000


def test_the_templates_are_compiled_once(course: courses.Course) -> None:
    page(course)
    before = dict(COMPILED.kept)
    page(course, answer_cell())
    assert COMPILED.kept == before and len(before) >= 2


def test_a_check_shows_the_timelines_of_what_did_not_pass() -> None:
    hang = judged(saved(HANG))
    cells = with_launches({"t1": outputs(hang, 2)}, [hang])
    result = CopyResult("mini", tests=(TestResult("t1", "failed", 0, 2),), cells=cells)
    (bundle,) = bundles(result)
    assert "all_reduce" in bundle["text/plain"] and bundle["image/svg+xml"].startswith("<svg")
    assert bundles(replace(result, tests=(TestResult("t1", "passed", 2, 2),))) == []
    lines = pictures(cells)["t1"]
    test = {"id": "t1", "status": "failed", "points": 0, "max_points": 2}
    told = {"tests": [test], "graded": True, "assignment": "mini", "score": 0, "max_score": 2}
    said = check_view(told, pictures=pictures(cells))
    assert f"    {lines[1]}" in said.splitlines()


# -- its shape ---------------------------------------------------------------------------------------------


def test_the_headings_of_a_copy_stand_in_order_under_the_page_s_own(course: courses.Course) -> None:
    made = page(course, new_markdown_cell("###### Loin\n\n# Haut"), new_markdown_cell("# Haut"),
                answer_cell("## fb-note"))  # fmt: skip
    soup = BeautifulSoup(made, "html.parser")
    levels = [int(title.name[1]) for title in soup.find_all(re.compile("^h[1-6]$"))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    targets = {link["href"][1:] for link in soup.find_all("a", href=re.compile("^#"))}
    assert targets <= set(ids)


def test_code_in_a_line_of_a_report_is_code_and_nothing_else() -> None:
    assert inline("voir `a < b`, <b>") == "voir <code>a &lt; b</code>, &lt;b&gt;"
    assert inline("un ` seul") == "un ` seul"


def full(course: courses.Course, folder: Path) -> Path:
    """A page with something of everything, for the browser."""
    table = "| | entre |\n|---|---|\n| rang 0 | oui |"
    code = "```python\nif True:  # un mot\n    x = 'y' + 1\n```"
    head = "<thead><tr><th></th><th>a</th></tr></thead>"
    html = f'<table border="1">{head}<tbody><tr><th>0</th><td>1</td></tr></tbody></table>'
    made = page(
        course, new_markdown_cell(f"## Un tableau\n\n{table}\n\n{code}"),
        new_code_cell("class A:\n    '''doc'''\n    def f(self):\n        return [0.5, None]", outputs=[
            new_output("stream", text="\x1b[31mrouge\x1b[0m " + "long " * 200),
            new_output("display_data", data={"text/html": html}),
            new_output("error", ename="E", evalue="e", traceback=["\x1b[0;31mE\x1b[0m: e"]),
        ]),
        test_cell(judged(saved(HANG))), test_cell(judged(saved("25551694fc14"), "t2")),
        test_cell(judged(saved("a235088d35c4"), "t3", text="RESULTAT")),
        answer_cell(comment="Bien vu, **mais** relisez `wait`.", score=2.5),
    )  # fmt: skip
    path = folder / "mini.html"
    path.write_text(made, encoding="utf-8")
    return path


@pytest.mark.timeout(600)
def test_the_real_browser_finds_it_accessible_offline_and_fit_for_paper(
    course: courses.Course, tmp_path: Path
) -> None:
    path = full(course, tmp_path)
    with chromium(1100, 900, "--lang=fr", "--host-resolver-rules=MAP * ~NOTFOUND") as driver:
        open_file(driver, path)
        assert accessibility(driver) == []
        asked = [url for url in requested(driver) if not url.startswith(("file:", "data:", "chrome"))]
        assert asked == []
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []
        # Nothing scrolls sideways, on a wide screen, on a telephone and on paper.
        for width in (1100, 400):
            driver.set_window_size(width, 900)
            assert driver.execute_script(
                "return document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1")
        printed = base64.b64decode(driver.print_page())
    assert printed.startswith(b"%PDF") and len(printed) > 10_000
