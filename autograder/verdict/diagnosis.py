"""Why a launch went wrong, where, and what to try: one diagnosis, from what the launch left behind.

In this order: the machine's faults; what ends a script before it starts; a primary cause on any rank; what
the record of the collectives proves; a secondary message (a victim's, shown only when nothing better is
known); the silent cases. A rank that the launcher ended (SIGTERM) is never blamed, and torchrun's "Root
Cause", which names the victim, is never shown.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Sequence

from autograder import messages
from autograder.launch.run import RankLog, Run
from autograder.verdict import catalogue, evidence, life, meeting, noise, proofs, texts
from autograder.verdict.cause import AFTER_THE_END, Context, Diagnosis, at, make, ranks_named
from autograder.verdict.traceback import Raised, base_name, fatal_line, raised

__all__ = ["AFTER_THE_END", "Context", "Diagnosis", "as_students", "diagnose", "infrastructure"]

SIGTERM, SIGKILL = -15, -9
_SIGNALS = {-4: "SIGILL", -6: "SIGABRT", -7: "SIGBUS", -8: "SIGFPE", -11: "SIGSEGV"}
# Raised in a process that somebody else ends: no fault of its script.
_ENDED = frozenset({"KeyboardInterrupt", "SignalException"})
# torchrun ends a rank that ignores SIGTERM: not the student's SIGKILL, nor the system's.
_FORCED = re.compile(r"forcefully exiting via SIGKILL|Unable to shutdown process")


def diagnose(run: Run, context: Context | None = None) -> Diagnosis | None:
    """The cause of what went wrong in `run`; None when nothing did. `context` is a test's, if any."""
    return (
        infrastructure(run)
        or _before_start(run)
        or _primary(run)
        or _from_the_record(run, context)
        or _secondary(run)
        or _silent(run, context)
        or _with_right_exit(run, context)
        or _unknown(run)
    )


def infrastructure(run: Run) -> Diagnosis | None:
    """The machine's fault, for which no mark may be lost; None when the launch can be judged."""
    if run.infra is not None:
        known = run.infra in {*catalogue.LAUNCHER_SAYS, *(rule.id for rule in catalogue.INFRASTRUCTURE)}
        return make(run.infra if known else "infra", "I", cause=texts.one_line(run.infra), at="")
    if catalogue.IFNAME_IN_SOURCE.search(run.source):
        return None
    formed = {event.rank for event in run.events if event.name == "init"}
    if any(log.rank in formed and log.exit_code not in (0, SIGTERM, None) for log in run.ranks):
        return None   # the ranks can reach each other: what one suffered is what another one did
    errors = [raised(log.stderr, run.request.script) for log in _suspects(run)]
    raised_messages = [error.message for error in errors if error is not None]
    for rule in catalogue.INFRASTRUCTURE:
        if rule.id == "fullmesh" and joined_again(run):
            continue   # it met what its first group had left in the rendezvous
        if any(rule.pattern.search(message) for message in raised_messages):
            return make(rule.id, "I", cause=rule.id)
    return None


def joined_again(run: Run) -> bool:
    """Whether a rank called `init_process_group` once more, after the end of its first group."""
    return any(len(life.groups(run, rank)) > 1 for rank in evidence.world(run))


def as_students(run: Run, script: str = "labo.py") -> Run:
    """`run` as a test may explain it: where the test launched a script of its own around the student's, no
    line of that script is quoted, and lines are those of `script`.
    """
    if base_name(run.request.script) == script:
        return run
    return dataclasses.replace(
        run, source="", request=dataclasses.replace(run.request, script=script),
        ranks=tuple(dataclasses.replace(log, error_line=None) for log in run.ranks),
        collectives=tuple(dataclasses.replace(call, line=None) for call in run.collectives),
    )


def _before_start(run: Run) -> Diagnosis | None:
    stderr = "\n".join([run.launcher_stderr, run.stderr, *(log.stderr for log in run.ranks)])
    if "can't open file" in stderr and not run.source:
        return make("missing-file", "P", script=texts.one_line(run.request.script))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(run.source, "labo.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno
        return make("syntax", "P", None, line, at=at(run, line), error=texts.one_line(error.msg))
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return make("syntax", "P", at="", error=texts.one_line(str(error) or type(error).__name__))
    return None


def _primary(run: Run) -> Diagnosis | None:
    """A message that names its cause, on any rank; then an exception of the script; then a kill."""
    logs = _suspects(run)
    for rule in catalogue.PRIMARY:
        hits = [(log, hit) for log in logs if (hit := rule.pattern.search(_said(log, rule.printed)))]
        if hits:
            log, hit = hits[0]
            error = raised(log.stderr, run.request.script)
            line = error.line if error else log.error_line
            named = [one.rank for one, _ in hits]
            return make(
                rule.id, "P", _rank(log), line, at=at(run, line), where=_named(named),
                error=texts.one_line(error.message if error else hit.group()),
                processes=run.request.world_size, when=_when(run, log) if rule.id == "no-init" else "",
                **{key: texts.one_line(value or "") for key, value in hit.groupdict().items()},
            )
    if any(catalogue.PORT.search(log.stderr) for log in logs) or catalogue.PORT.search(run.launcher_stderr):
        line = _source_line(run, catalogue.PORT_IN_SOURCE)
        return make("port", "P", None, line, at=at(run, line))
    for log in logs:
        error = raised(log.stderr, run.request.script)
        if error is not None and "connectFullMesh failed" in error.message and joined_again(run):
            return make("init-twice", "P", _rank(log), error.line, where=_named([log.rank]),
                        at=at(run, error.line))
    exception = _exception(run, logs)
    if exception is not None:
        return exception
    if run.output_limited:
        return make("too-much-output", "P", limit=messages.number(run.request.output_limit_bytes / 1024, 0))
    if not run.timed_out and not _FORCED.search(run.launcher_stderr):
        for log in run.ranks:
            if log.exit_code == SIGKILL:
                return proofs.killed(run, log.rank)
    return None


def _exception(run: Run, logs: Sequence[RankLog]) -> Diagnosis | None:
    found: list[tuple[RankLog, Raised]] = []
    for log in logs:
        error = raised(log.stderr, run.request.script)
        if error is not None and not _of_a_victim(error) and error.type not in _ENDED:
            found.append((log, error))
    if not found:
        return None
    log, error = found[0]
    line = error.line
    rank = _rank(log)
    if not run.request.launcher and error.type == "KeyError" and "RANK" in error.message:
        return make("no-launcher", "P", rank, line, at=at(run, line))
    if error.type == "NotImplementedError" and "compléter" in error.message:
        return make("unfilled", "P", rank, line, at=at(run, line))
    if meeting.mismatch(run) is not None and any(
        call.error and call.rank == log.rank for call in run.collectives
    ):
        return None   # raised by the collective itself, in which the ranks disagree: the record says how
    same = [one.rank for one, other in found if (other.type, other.line) == (error.type, line)]
    return make(
        "exception", "P", rank, line, at=at(run, line), where=_named(same),
        type=texts.one_line(error.type, 60), error=texts.one_line(error.message, 300),
    )


def _of_a_victim(error: Raised) -> bool:
    return bool(evidence.WAITING.search(error.message) or catalogue.PREAMBLE.search(error.message))


def _from_the_record(run: Run, context: Context | None) -> Diagnosis | None:
    if run.exit_code == 0 and not run.timed_out:
        return None
    found = proofs.mismatch(run)
    if found is not None:
        return found
    for log in run.ranks:
        if log.exit_code in _SIGNALS and not _after_the_end(log, context):
            line = fatal_line(log.stderr, run.request.script)
            if catalogue.PREAMBLE.search(log.stderr):
                return make("size", "P", log.rank, line, at=at(run, line))
            return make("crash", "P", log.rank, line, at=at(run, line), signal=_SIGNALS[log.exit_code])
    if run.timed_out:
        going_on = proofs.unfinished(run)
        if going_on is not None:
            return going_on
    return proofs.no_backward(run) or proofs.absent_rank(run)


def _secondary(run: Run) -> Diagnosis | None:
    logs = [log for log in _suspects(run) if log.exit_code not in (0, SIGTERM)] or _suspects(run)
    for rule in catalogue.SECONDARY:
        for log in logs:
            hit = rule.pattern.search(log.stderr)
            if hit:
                error = raised(log.stderr, run.request.script)
                line = error.line if error else None
                others = [rank for rank in evidence.world(run) if rank != log.rank]
                return make(
                    rule.id, "S", _rank(log), line, where=_named([log.rank]), at=at(run, line),
                    others=ranks_named(others, lower=True) if others else "", **hit.groupdict(),
                )
    return None


def _silent(run: Run, context: Context | None) -> Diagnosis | None:
    """Nothing was said: the deadline, torch's stumbling after the end, a script that stops by itself."""
    if run.timed_out:
        ended = bool(run.ranks) and all(log.reached_end or log.exit_code == 0 for log in run.ranks)
        if ended or (context is not None and context.all_there):
            hung = next((log.rank for log in run.ranks if log.exit_code != 0), None)
            return make("exit-hang", "N", hung)
        return proofs.hang(run)
    if run.exit_code == 0:
        return None
    for log in run.ranks:
        if log.exit_code in _SIGNALS and _after_the_end(log, context):
            return make("exit-abort", "N", log.rank)
    for log in run.ranks:
        if log.exit_code not in (0, SIGTERM, None):
            last = noise.last_lines(log.stderr, 1)
            said = messages.text("part.said", text=last[0]) if last else ""
            return make("early-exit", "P", log.rank, None, where=ranks_named([log.rank]), code=log.exit_code,
                        said=f" {said}" if said else "")
    return None


def _with_right_exit(run: Run, context: Context | None) -> Diagnosis | None:
    """The launch ended well: the record still tells wrong numbers, texts written by hand, a slow rank."""
    if run.exit_code != 0:
        return None
    found = (
        proofs.mismatch(run) or proofs.wrong_division(run, context) or proofs.unwaited(run, context)
        or proofs.wrong_unit(run)
    )
    if found is None and context is not None:
        found = proofs.by_hand(run, context)
        if found is None and context.missing:
            for log in run.ranks:
                if not log.stdout.strip():
                    where = ranks_named([log.rank])
                    return make("early-exit", "P", log.rank, None, where=where, code=0, said="")
    return found or proofs.slow_step(run)


def _unknown(run: Run) -> Diagnosis | None:
    """It failed, and nothing here knows why: that is said, with the last lines that say something."""
    if run.exit_code in (0, None):
        return None
    # The ranks that the launcher ended come last, then what was not separated, then its own words.
    failed = sorted(run.ranks, key=lambda log: log.exit_code in (0, SIGTERM))
    sources: list[tuple[int | None, str]] = [(log.rank, log.stderr) for log in failed]
    sources += [(None, run.stderr)] if not run.ranks else []
    for rank, said in [*sources, (None, noise.launchers(run.launcher_stderr))]:
        last = noise.last_lines(said)
        if last:
            where = f" ({ranks_named([rank], lower=True)})" if rank is not None else ""
            quoted = " / ".join(f"« {one} »" for one in last)
            shown = messages.text("part.last-lines", where=where, lines=quoted)
            return make("unknown", "P", rank, code=run.exit_code, said=f" {shown}")
    return make("unknown", "P", code=run.exit_code, said="")


def _when(run: Run, log: RankLog) -> str:
    """Whether the collective came before the group or after its end, where the record tells."""
    told = life.groups(run, log.rank)
    if not told:
        return messages.text("part.before-init") if evidence.recorded(run) else ""
    return messages.text("part.after-destroy") if told[-1].left is not None else ""


def _suspects(run: Run) -> list[RankLog]:
    """The ranks that may hold the cause: those that failed by themselves, then those that left a traceback.

    Where ranks are not separated, torch's own `[rankN]:` prefix is the attribution, else rank -1 (unknown).
    """
    if run.exit_code == 0 and not run.timed_out:
        return []
    if run.ranks:
        failed = [log for log in run.ranks if log.exit_code not in (0, SIGTERM)]
        stopped = [log for log in run.ranks if log.exit_code == SIGTERM and "Traceback" in log.stderr]
        return failed + stopped
    merged = run.stderr + "\n" + run.launcher_stderr
    by_rank: dict[int, list[str]] = {}
    for line in merged.splitlines():
        prefix = re.match(r"\[rank(\d+)\]:", line)
        by_rank.setdefault(int(prefix[1]) if prefix else -1, []).append(line)
    code = run.exit_code
    return [
        RankLog(rank, max(rank, 0), code, run.stdout if rank < 0 else "", "\n".join(lines))
        for rank, lines in sorted(by_rank.items(), reverse=True)
    ]


def _said(log: RankLog, printed: bool) -> str:
    return texts.without_source(log.stderr) + ("\n" + log.stdout if printed else "")


def _after_the_end(log: RankLog, context: Context | None) -> bool:
    if log.reached_end:
        return True
    return bool(catalogue.AT_EXIT.search(log.stderr)) and context is not None and context.all_there


def _rank(log: RankLog) -> int | None:
    return log.rank if log.rank >= 0 else None


def _named(ranks: Sequence[int]) -> str:
    known = [rank for rank in ranks if rank >= 0]
    return ranks_named(known) if known else messages.text("part.some-rank")


def _source_line(run: Run, pattern: re.Pattern[str]) -> int | None:
    return next((n for n, code in enumerate(run.source.splitlines(), 1) if pattern.search(code)), None)
