"""What a script does to deceive whoever grades it: a person is told, no mark changes by itself.

A rank's recorder lives in the student's own process, so that what it tells can be forged there. Two looks
make it evident: one at the script's text (script_look.py), one at whether the record holds together
(record_look.py). Pure functions; nothing that a student wrote raises here. A copy in which something was seen
has the flag FLAG ("tampering"), and `told` says each thing, in French, to the grader only.

    id                seen in the script's text
    recorder          it names our recorder, its variables or files, or PyTorch's Flight Recorder
    patched           it replaces a function of torch, of the standard library, a built-in or a loaded module
    introspection     it looks into frames, closures, wrapped functions, living objects, or traces calls
    native            ctypes and the like
    dynamic-code      code that cannot be read: exec, eval, marshal, base64…
    process           fork, exec, setsid, a kill of another process, an exit without end (os._exit)
    signals           it handles signals
    network           it opens connections of its own
    exit-hook         it does something after its end
    outside           it names files of the launcher, of the grader or of other processes, or its parent
    environment       it sets what changes the next Python (PYTHONPATH, LD_PRELOAD)
    where-it-runs     it behaves by the date, the user or the machine
    rewrites          it changes its own file, or writes a module that Python loads by itself

    id                seen in what the launch left
    forged-marks      marks that the recorder did not write, or marks taken away
    forged-flight     a Flight Recorder file that the recorder did not write
    two-processes     two processes told the life of one rank
    strange-file      other files in the record's folder, a link, or one that is far too large
    replaced          at its end, a function that the recorder had dressed was another one
    no-flight         a collective that PyTorch's own record does not have
    no-mark           a collective in PyTorch's record, of a kind that a script alone makes, without its mark
    wrong-reduction   a result that is not the reduction of what the ranks brought
    met-nobody        a collective that completed on a rank and that another one never entered
    times             times that run backwards or lie outside the launch
    no-end            exit code 0, and the interpreter never came to its end
    no-record         exit code 0, texts, and no record at all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autograder import messages
from autograder.launch.run import Run
from autograder.verdict import record_look, script_look
from autograder.verdict.suspicion import FLAG, Suspicion, told
from autograder.verdict.traceback import base_name

__all__ = ["FLAG", "Suspicion", "notes", "notes_of_files", "shortened", "suspicions", "told"]

MOST_NOTES = 8   # told of one copy


def suspicions(run: Run, script: str | None = None) -> list[Suspicion]:
    """What a person should read again about `run`, each thing once.

    `script`: the student's file (None: the one that was launched). Where a test launched a script of its own
    around it, that script's text is the test's affair.
    """
    own = script is None or base_name(run.request.script) == script
    found = [*(script_look.look(run.source) if own else ()), *record_look.look(run, own)]
    if not own:
        found = [replace(one, line=None) for one in found]
    return list(dict.fromkeys(found))


def notes(runs: Iterable[Run | None], script: str) -> list[str]:
    """All that is suspicious in these launches of the student's `script`, in French, each thing once."""
    each = {id(run): run for run in runs if run is not None}   # Runs hold dicts: not hashable
    found = (one for run in each.values() for one in suspicions(run, script))
    return list(dict.fromkeys(told(one, script if one.line is not None else "") for one in found))


def notes_of_files(files: Mapping[str, bytes]) -> list[str]:
    """The same of the Python files that a copy holds, also of those that no test launches by themselves."""
    return [
        told(one, name)
        for name, content in files.items() if name.endswith(".py")
        for one in script_look.look(content.decode("utf-8", "replace"))
    ]


def shortened(lines: Iterable[str]) -> tuple[str, ...]:
    """Each line once, the first few of them: one is enough for a person to read the whole copy."""
    found = list(dict.fromkeys(lines))
    left = len(found) - MOST_NOTES
    if left <= 0:
        return tuple(found)
    return (*found[:MOST_NOTES], messages.text("tampering.more", count=left, s=messages.plural(left)))
