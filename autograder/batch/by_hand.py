"""Which cells of a copy wait for a person: the same for the table, the class page and the exports."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def waiting(
    points: Mapping[str, float | None], reviews: Collection[str], written: Collection[str], *, read: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tests without a mark, which wait for another grading; and the cells that a person has to mark.

    `points`: those of each cell, None where it has none yet. `reviews`: the cells that nbgrader asks a person
    to look at. `written`: those that a person marks. `read`: the notebook could be read; of a copy that could
    not, there is nothing to mark until its cause is mended.
    """
    lacking = {cell for cell, given in points.items() if given is None and cell not in written}
    pending = {cell for cell, given in points.items() if given is None} | set(reviews)
    return tuple(sorted(lacking)), () if lacking and not read else tuple(sorted(pending - lacking))
