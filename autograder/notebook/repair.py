"""Put a student's notebook back on the skeleton that was released. Pure: notebooks in, notebook out.

What the student wrote is kept; what nbgrader needs (roles, points, locks, test cells, kernel) is the
instructor's. A copied, deleted, retyped or re-flagged cell stops stock nbgrader or loses the copy; here it
is a remark.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.messages import text
from autograder.notebook.cells import (
    Cell,
    for_show,
    released_source,
    same_code,
    source_cells,
    unique_id,
    written_file,
)


@dataclass(frozen=True)
class Skeleton:
    """The source notebook's cells with what the student was given in each graded one, by cell id."""

    cells: tuple[Cell, ...]
    released: dict[str, str]
    nodes: dict[str, NotebookNode]
    ids: dict[str, str]  # a cell's own id in the file -> our id (its grade_id)
    metadata: NotebookNode

    @property
    def graded(self) -> dict[str, Cell]:
        return {cell.id: cell for cell in self.cells if cell.graded}


@dataclass(frozen=True)
class Repaired:
    """`notebook` has every graded cell exactly once, with id = grade_id; `roles` tells each of its cells'
    role.
    """

    notebook: NotebookNode
    remarks: tuple[str, ...]
    roles: dict[str, str]


def skeleton(source: NotebookNode, release: NotebookNode | None = None) -> Skeleton:
    """From the source notebook, and the released one where it is at hand (it is what the student was
    given).
    """
    cells = tuple(source_cells(source))
    given = {cell.id: cell.source for cell in source_cells(release)} if release is not None else {}
    released = {
        cell.id: given.get(cell.id, released_source(cell)) if cell.role != "test" else released_source(cell)
        for cell in cells
    }
    nodes = {cell.id: source.cells[cell.index] for cell in cells}
    ids = {str(source.cells[cell.index].get("id")): cell.id for cell in cells}
    return Skeleton(cells, released, nodes, ids, source.metadata)


def repair(submitted: NotebookNode, frame: Skeleton) -> Repaired:
    """The submitted notebook on the skeleton, with French remarks on what had to be mended."""
    return _Repair(submitted, frame).result()


def untouched(frame: Skeleton) -> NotebookNode:
    """The released notebook itself, as the skeleton knows it: what is recorded for a copy that cannot be
    read.
    """
    empty = NotebookNode(nbformat=4, nbformat_minor=5, metadata=NotebookNode(), cells=[])
    for cell in frame.cells:
        node = copy.deepcopy(frame.nodes[cell.id])
        node.source = frame.released[cell.id]
        empty.cells.append(node)
    return repair(empty, frame).notebook


class _Repair:
    def __init__(self, submitted: NotebookNode, frame: Skeleton) -> None:
        self.submitted, self.frame = submitted, frame
        self.remarks: list[str] = []
        self.roles: dict[str, str] = {}

    def result(self) -> Repaired:
        claims = [self._claim(cell) for cell in self.submitted.cells]
        chosen = self._choose(claims)
        cells: list[NotebookNode] = []
        taken = set(self.frame.graded)
        for index, (node, ident) in enumerate(zip(self.submitted.cells, claims, strict=True)):
            if ident is not None and chosen[ident] == index:
                cells.append(self._restore(self.frame.graded[ident], node))
            elif ident is not None and self.frame.graded[ident].role == "test":
                continue  # a copied test cell would make launches among the student's own cells
            else:
                cells.append(self._extra(node, index, taken, copied=ident is not None))
        for ident in self.frame.graded:
            if ident not in chosen:
                self.remarks.append(text("grading.cell-restored", cell=ident))
                self._insert(cells, ident)
        known = ("kernelspec", "language_info")  # the student's own metadata can be of any shape
        metadata = NotebookNode(
            {key: copy.deepcopy(self.frame.metadata[key]) for key in known if key in self.frame.metadata}
        )
        notebook = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells)
        return Repaired(notebook, tuple(self.remarks), self.roles)

    def _claim(self, node: NotebookNode) -> str | None:
        """Which graded cell this one is: by grade_id, by cell id, then by what it holds."""
        graded = self.frame.graded
        meta = node.metadata.get("nbgrader", {})
        if meta.get("grade_id") in graded:
            return str(meta["grade_id"])
        if meta.get("grade_id"):
            return None
        by_id = self.frame.ids.get(str(node.get("id")), str(node.get("id")))
        if by_id in graded:
            return by_id
        if node.cell_type == "code" and (name := written_file(node.source)):
            files = (cell for cell in graded.values() if cell.role == "file")
            return next((cell.id for cell in files if written_file(cell.source) == name), None)
        tests = (cell for cell in graded.values() if cell.role == "test")
        return next((cell.id for cell in tests if same_code(node.source, self.frame.released[cell.id])), None)

    def _choose(self, claims: list[str | None]) -> dict[str, int]:
        """Among cells that claim one grade_id: the first that differs from the release, else the first."""
        chosen: dict[str, int] = {}
        for ident in dict.fromkeys(claim for claim in claims if claim is not None):
            where = [index for index, claim in enumerate(claims) if claim == ident]
            # A cell that lost its metadata never wins over one that still has its grade_id and was answered.
            changed = [
                i for i in where if not same_code(self.submitted.cells[i].source, self.frame.released[ident])
            ]
            named = [
                i for i in changed if self.submitted.cells[i].metadata.get("nbgrader", {}).get("grade_id")
            ]
            chosen[ident] = (named or changed or where)[0]
            if len(where) > 1:
                self.remarks.append(text("grading.cell-copied", cell=ident, n=len(where)))
        return chosen

    def _restore(self, cell: Cell, node: NotebookNode) -> NotebookNode:
        model = self.frame.nodes[cell.id]
        # The released form: nbgrader puts hidden tests back from the gradebook, our run reads source/.
        locked = cell.role in ("test", "locked")
        if node.cell_type != cell.kind:
            self.remarks.append(text("grading.cell-retyped", cell=cell.id))
        elif not _same_role(node, model):
            self.remarks.append(text("grading.cell-reflagged", cell=cell.id))
        elif locked and not same_code(node.source, self.frame.released[cell.id]):
            self.remarks.append(text("grading.cell-unlocked", cell=cell.id))
        return self._build(cell, self.frame.released[cell.id] if locked else node.source)

    def _build(self, cell: Cell, source: str) -> NotebookNode:
        model = self.frame.nodes[cell.id]
        make = new_code_cell if cell.kind == "code" else new_markdown_cell
        node = make(source=source, id=unique_id(cell.id, set(), "cell"))
        node.metadata = NotebookNode(nbgrader=copy.deepcopy(model.metadata["nbgrader"]), deletable=False)
        node.metadata.nbgrader.update(schema_version=3, cell_type=cell.kind, task=_flag(model, "task"))
        if cell.role in ("test", "locked"):
            node.metadata["editable"] = False
        if model.metadata.get("tags"):
            node.metadata["tags"] = list(model.metadata["tags"])
        self.roles[node.id] = cell.role
        return node

    def _extra(self, node: NotebookNode, index: int, taken: set[str], copied: bool) -> NotebookNode:
        """A cell of the student's own, or of the lesson, in its place, which nbgrader must not look at.

        A copy of a graded cell gets the role "copy": running it too would undo what the graded one did.
        """
        node = copy.deepcopy(node)
        shown = for_show(node)
        node.metadata = NotebookNode(tags=["show"]) if shown else NotebookNode()
        own = self.frame.ids.get(str(node.get("id")), "")
        node.id = unique_id(node.get("id"), taken, f"extra-{index}")
        taken.add(node.id)
        known = {cell.id: cell.role for cell in self.frame.cells}
        role = known.get(own, "plain")
        if node.cell_type == "code" and shown:
            role = "show"
        self.roles[node.id] = "copy" if copied else "show" if role == "show" else "plain"
        return node

    def _insert(self, cells: list[NotebookNode], ident: str) -> None:
        """Put the missing cell after the nearest cell that precedes it in the skeleton."""
        order = [cell.id for cell in self.frame.cells]
        before = set(order[: order.index(ident)])
        place = max((i + 1 for i, node in enumerate(cells) if node.id in before), default=0)
        cells.insert(place, self._build(self.frame.graded[ident], self.frame.released[ident]))


def _same_role(node: NotebookNode, model: NotebookNode) -> bool:
    mine = node.metadata.get("nbgrader", {})
    same_points = str(mine.get("points") or 0) == str(model.metadata["nbgrader"].get("points") or 0)
    return same_points and all(
        bool(mine.get(flag)) == _flag(model, flag) for flag in ("grade", "solution", "task")
    )


def _flag(node: NotebookNode, flag: str) -> bool:
    return bool(node.metadata["nbgrader"].get(flag))
