"""A mark that is not what it was, of a copy that is: what a regrade must not do without saying so."""

from __future__ import annotations

from autograder.notebook.result import CopyResult


def changed_mark(before: CopyResult, after: CopyResult) -> str | None:
    """What became of the mark and what differs beside the copy; None where the copy or nothing changed, or
    where there was no mark before.
    """
    if not before.graded or before.copy_sha256 != after.copy_sha256:
        return None
    marks = [{test.id: test.points for test in result.tests} for result in (before, after)]
    if after.graded and marks[0] == marks[1]:
        return None
    now = f"{after.score:g} of {after.max_score:g}" if after.graded else "not graded"
    differs = [
        f"{name} ({old[:12]} → {new[:12]})"
        for name in sorted({*before.versions, *after.versions})
        if (old := before.versions.get(name, "-")) != (new := after.versions.get(name, "-"))
    ]
    if before.key_fingerprint != after.key_fingerprint:
        differs.append("the course key")
    if before.sandbox != after.sandbox:
        differs.append("the sandbox")
    why = ", ".join(differs) or "nothing that we know of"
    return f"{before.score:g} of {before.max_score:g} → {now}; what else differs: {why}"
