"""The API of test cells: expectations on a Run and on answers, ending in a number or an exception.

    run = launch("labo.py")
    m = marks(4, run)
    m.text("moyenne 0 [3.0, 5.0]", rank=0, points=2)
    m.text("moyenne 1 [3.0, 5.0]", rank=1, points=2)
    m.collective("all_reduce")        # a gate: without it the cell is worth 0, and texts alone are flagged
    m.total()                         # always the last line

`total` returns a float within [0, max] or raises TestFailed (0 points) or NotGraded (no mark): nbgrader would
give full marks to a cell without a result. A gate that fails makes the cell worth 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Unpack

from autograder import messages
from autograder.launch.run import Run
from autograder.verdict import diagnosis as diagnoses
from autograder.verdict import evidence, report, tampering, texts
from autograder.verdict.answers import close, truth, within
from autograder.verdict.expected import Exactly, Expected
from autograder.verdict.outcome import NotGraded, TestFailed
from autograder.verdict.report import Line, TestReport
from autograder.verdict.shown import of_lines

__all__ = ["LAST", "Marks", "NotGraded", "TestFailed", "TestReport", "close", "marks", "within"]

Causes = list[tuple[Run, diagnoses.Diagnosis | None]]
LAST: TestReport | None = None
"""What the last `total()` of this process said, whatever way it ended."""


def marks(
    max_points: float, run: Run | None = None, *, secret: bool = False, provoked: Iterable[str] = (),
    script: str = "labo.py",
) -> Marks:
    """Open the account of one test cell worth `max_points`, mostly about `run`.

    `secret`: no message shows an expected value (for hidden cells). `provoked`: the diagnoses of `run` that
    the test itself brings about (a rank made to skip…), which would send the student after a fault that is
    not there. `script`: the student's, whose lines a diagnosis may name. Raises NotGraded when the launch
    itself failed for a reason that is not the student's.
    """
    return Marks(max_points, run, secret=secret, provoked=provoked, script=script)


class Marks:
    """One test cell. Every expectation on a launch takes `run=` to look at another launch than the cell's."""

    def __init__(
        self, max_points: float, run: Run | None = None, *, secret: bool = False,
        provoked: Iterable[str] = (), script: str = "labo.py",
    ) -> None:
        global LAST
        LAST = None
        self.max_points = float(max_points)
        self.secret = secret
        self._provoked, self._script = frozenset(provoked), script
        self._run = run
        self._lines: list[Line] = []
        self._flags, self._remarks = list[str](), list[str]()
        self._inputs: tuple[str, tuple[str, ...], Any, Run | None] | None = None
        if run is not None:
            self._usable(run)

    # -- what the ranks printed ------------------------------------------------------------------------

    def text(
        self, expected: str, rank: int | None = None, points: float = 0, gate: bool = False,
        advice: str = "", run: Run | None = None, secret: bool | None = None,
    ) -> bool:
        """`expected` was printed, by `rank` or by anyone; numbers are guarded (see `texts`)."""
        return self.any_text([expected], rank, points, gate, advice, run, secret)

    def any_text(
        self, expected: Sequence[str], rank: int | None = None, points: float = 0, gate: bool = False,
        advice: str = "", run: Run | None = None, secret: bool | None = None,
    ) -> bool:
        """One of `expected` was printed; messages name the first one."""
        run = self._of(run)
        ok = any(texts.present(run, one, rank) for one in expected)
        hide = self.secret if secret is None else secret
        finding = "" if ok else report.missing_text(run, expected[0], rank, hide)
        self._add(ok, finding, advice, points, gate, run, text=expected[0], hidden=hide)
        return ok

    def each(
        self, template: str, ranks: Iterable[int] = (0, 1), points: float = 0, gate: bool = False,
        advice: str = "", run: Run | None = None, secret: bool | None = None,
    ) -> bool:
        """`template`, its {k} replaced by the rank, was printed by each of `ranks`; they share `points`."""
        wanted = list(ranks)
        found = [
            self.text(template.replace("{k}", str(k)), k, points / len(wanted), gate, advice, run, secret)
            for k in wanted
        ]
        return all(found)

    def main(self, *templates: str, ranks: Iterable[int] = (0, 1), run: Run | None = None) -> bool:
        """Gate of a negative test: it counts only where the exercise's main texts are there on every rank.

        Otherwise an empty script, which does nothing wrong either, would earn its points.
        """
        wanted = tuple(ranks)
        found = [self.each(template, wanted, gate=True, run=run) for template in templates]
        return all(found)

    def absent(
        self, text: str, rank: int | None = None, points: float = 0, gate: bool = False,
        advice: str = "", run: Run | None = None,
    ) -> bool:
        """`text` was not printed, by `rank` or by anyone. Alone, silence would earn points: see `main`."""
        run = self._of(run)
        ok = not texts.present(run, text, rank)
        finding = "" if ok else messages.text(
            "check.unwanted-text", where=report.where(rank), text=texts.one_line(text))
        self._add(ok, finding, advice, points, gate, run)
        return ok

    # -- what really ran -------------------------------------------------------------------------------

    def collective(
        self, op: str | Sequence[str] | None = None, ranks: Iterable[int] | None = None,
        numel: int | None = None, gate: bool = True, points: float = 0, advice: str = "",
        values: Sequence[Sequence[float]] | None = None, run: Run | None = None, **exactly: Unpack[Exactly],
    ) -> bool:
        """Such a collective was completed on each of `ranks` (all by default), as the record proves.

        `values`: its result on each rank was one of these (flat). `times`, `shape`, `dtype`, `only`: see
        expected.py. Texts without any collective at all flag the copy as hard-coded.
        """
        run = self._recorded(run)
        asked = Expected(op, None if ranks is None else tuple(ranks), numel, values, **exactly)
        finding = asked.missing(run, self.secret)
        self._add(not finding, finding, advice, points, gate, run, collective=True)
        return not finding

    def ddp(self, gate: bool = False, points: float = 0, advice: str = "", run: Run | None = None) -> bool:
        """Every rank wrapped its model in DDP and DDP reduced the gradients itself."""
        run = self._of(run)
        ok = evidence.ddp_ran(run)
        self._add(ok, "" if ok else messages.text("check.no-ddp"), advice, points, gate, run, collective=True)
        return ok

    def exit(
        self, zero: bool = True, points: float = 0, gate: bool = False, advice: str = "",
        run: Run | None = None,
    ) -> bool:
        """The launch ended with code 0 (or, `zero` False, by itself with another one).

        torch aborting after the script's last line (see the diagnoses exit-abort, exit-hang) counts as 0.
        """
        run = self._of(run)
        found = self._diagnose(run)
        late = found is not None and found.id in diagnoses.AFTER_THE_END
        fine = run.exit_code == 0 or late
        ok = fine if zero else not fine and not run.timed_out
        finding = "" if ok else report.wrong_exit(run, zero)
        self._add(ok, finding, advice, points, gate, run)
        return ok

    def follow_inputs(
        self, variable: str, course: Sequence[str], op: str | Sequence[str] | None = "all_reduce",
        run: Run | None = None,
    ) -> bool:
        """Tell rows written in the script from a wrong result, when `run` was given other rows in `variable`.

        True (and the copy is flagged inputs-ignored) when the collective ran and the texts are `course`, the
        course's own rows' result. Costs nothing by itself; call it after the texts of the drawn rows.
        """
        looked = self._of(run)
        self._inputs = (variable, tuple(course), op, run)
        missing = any(not line.ok for line in self._lines if line.text and line.run is looked)
        ignored = missing and all(texts.present(looked, one) for one in course) and evidence.ran(looked, op)
        if ignored:
            self.flag("inputs-ignored")
        return ignored

    # -- anything else ---------------------------------------------------------------------------------

    def check(
        self, ok: object, finding: str, advice: str = "", points: float = 0, gate: bool = False,
        run: Run | None = None,
    ) -> bool:
        """Anything else; `finding` (French) says what is wrong when `ok` is false."""
        passed = truth(ok)
        self._add(passed, "" if passed else finding, advice, points, gate, run or self._run)
        return passed

    def answer(self, name: str, value: object, ok: object, advice: str = "", points: float = 0) -> bool:
        """A plain answer of the student: a wrong one is shown with its name, the right one never."""
        passed = truth(ok)
        finding = "" if passed else report.wrong_answer(name, value)
        self._add(passed, finding, advice, points, False, self._run, about_run=False)
        return passed

    def flag(self, id: str) -> None:
        """Mark the copy for the grader's eyes ("hard-coded", "inputs-ignored"…)."""
        if id not in self._flags:
            self._flags.append(id)

    def remark(self, text: str) -> None:
        """Shown to the student whatever the mark; costs nothing."""
        self._remarks.append(text)

    # -- the end ---------------------------------------------------------------------------------------

    def total(self) -> float | None:
        """The cell's points, printed with a French report; raises TestFailed for 0. Always the last line.

        None, which nbgrader takes for a pass, in a student's copy of the cell whose visible lines are all
        right: a number below the maximum would be shown as a failure by `nbgrader validate`.
        """
        global LAST
        at_stake = sum(line.points for line in self._lines)
        if at_stake > self.max_points + 1e-9:
            both = f"{at_stake:g} points, but marks() was told {self.max_points:g}"
            raise ValueError(f"this cell's lines give {both}")
        # Fewer: the student's copy of the cell, without its hidden lines. What is left is judged on its own.
        pending = round(self.max_points - at_stake, 6)
        if pending:
            self.max_points = round(at_stake, 6)
            shown, s = messages.number(pending), messages.plural(pending)
            self.remark(messages.text("check.pending", points=shown, s=s))
        closed = any(line.gate and not line.ok for line in self._lines)
        earned = 0.0 if closed else round(sum(line.points for line in self._lines if line.ok), 6)
        earned = self.max_points if math.isclose(earned, self.max_points) else earned
        full = earned == self.max_points
        # A gate on another launch is shut: what this cell's own launch lacks would only distract from it.
        gates = [line for line in self._lines if line.gate and not line.ok and line.run is not self._run]
        told = [line for line in gates if line.run is not None] or self._lines
        causes, suspicions = self._causes(told, full), self._suspicions()
        result = report.build(
            told, earned, self.max_points, causes=causes, flags=tuple(self._flags),
            remarks=tuple(self._remarks), inputs=self._inputs if "inputs-ignored" in self._flags else None,
            suspicions=suspicions, launches=of_lines(told, self._lines, self._run, self.secret, full),
        )
        LAST = result.summary
        if earned <= 0 and (self.max_points > 0 or not all(line.ok for line in self._lines)):
            raise TestFailed(result.text) from None
        report.say(result.text)
        return None if pending and full else float(earned)

    def _causes(self, lines: Sequence[Line], full: bool) -> Causes:
        """The launches that something failed about, each with its diagnosis, which may flag the copy."""
        looked = [line.run for line in lines if line.about_run and (full or not line.ok)]
        runs = {id(run): run for run in looked if run is not None}   # a set would compare data
        causes: Causes = []
        for run in runs.values():
            found = self._diagnose(run)
            if found is not None and run is self._run and found.id in self._provoked:
                found = None
            if found is not None and found.id == "hard-coded":
                self.flag(found.id)
            # All is right: only torch's own stumbling after the end is worth a word.
            if not full or (found is not None and found.id in diagnoses.AFTER_THE_END):
                causes.append((run, found))
        return causes

    def _diagnose(self, run: Run) -> diagnoses.Diagnosis | None:
        about = [line for line in self._lines if line.run is run]
        context = diagnoses.Context(
            present=tuple(line.text for line in about if line.text and line.ok),
            missing=tuple(line.text for line in about if line.text and not line.ok),
            collective_missing=any(line.collective and not line.ok for line in about),
        )
        return diagnoses.diagnose(diagnoses.as_students(run, self._script), context)

    def _of(self, run: Run | None) -> Run:
        chosen = run if run is not None else self._run
        if chosen is None:
            raise ValueError("marks() was given no run: pass run= to this expectation")
        self._usable(chosen)
        return chosen

    def _recorded(self, run: Run | None) -> Run:
        """As `_of`; a right launch whose record is missing altogether is not graded."""
        chosen = self._of(run)
        if chosen.exit_code == 0 and not evidence.recorded(chosen):
            self._give_up(messages.text("check.no-record"), "", None, chosen)
        return chosen

    def _usable(self, run: Run) -> None:
        """Raise NotGraded when nothing can be concluded from `run`."""
        found = diagnoses.infrastructure(run)
        if found is not None:
            self._give_up(found.message, found.advice, found.as_dict(), run)

    def _suspicions(self, run: Run | None = None) -> list[str]:
        """What a person should read again in the launches of this cell; flags the copy, costs nothing."""
        found = tampering.notes([run, self._run, *(line.run for line in self._lines)], self._script)
        if found:
            self.flag(tampering.FLAG)
        return found

    def _give_up(
        self, cause: str, advice: str, diagnosis: dict[str, Any] | None, run: Run | None = None,
    ) -> NoReturn:
        global LAST
        message = messages.text("check.not-graded", cause=cause)
        message += "\n" + messages.text("check.advice", advice=advice) if advice else ""
        LAST = TestReport(
            points=0.0, max_points=self.max_points, status="not_graded", message=cause, advice=advice,
            suspicions=self._suspicions(run), flags=list(self._flags), diagnosis=diagnosis,
            launches=of_lines((), self._lines, run, self.secret, passed=False),
        )
        raise NotGraded(message)

    def _add(
        self, ok: bool, finding: str, advice: str, points: float, gate: bool, run: Run | None,
        text: str = "", collective: bool = False, about_run: bool = True, hidden: bool = False,
    ) -> None:
        self._lines.append(Line(
            ok=ok, finding=finding, advice=advice, points=float(points), gate=gate, run=run, text=text,
            collective=collective, about_run=about_run and run is not None, hidden=hidden,
        ))
