"""A look at a script's text: names that no lesson uses and that serve to deceive whoever grades.

Anybody can hide from such a look; it makes the usual ways evident, and never flags what the course teaches
(reading RANK and MCI_… variables, pauses, clocks, subprocess in the lab's launcher, gc.collect).
The names are in script_names.py.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autograder.verdict.script_alias import Names
from autograder.verdict.script_names import (
    ASKED,
    ATTRIBUTES,
    CROSSROADS,
    ENVIRONMENT,
    EPOCH,
    LIBRARIES,
    NAMED,
    NAMES,
    OPEN,
    PLACE_VARIABLES,
    PLACES,
    SETTINGS,
    SOCKETS,
    WORDS,
)
from autograder.verdict.suspicion import Suspicion, seen

LONGEST_SOURCE = 50_000    # characters that are parsed: a longer script is looked at as text
MOST_NAMES = 3             # quoted of each kind

@functools.lru_cache(maxsize=16)   # each test cell of a copy asks about the same script
def look(source: str) -> tuple[Suspicion, ...]:
    """What `source` shows, in the order of its lines: each kind once, where it first stands."""
    found: list[tuple[str, int, str]] = []
    try:
        if len(source) > LONGEST_SOURCE:   # nobody writes that by hand
            found.append(("dynamic-code", 1, f"{len(source)} caractères"))
            raise ValueError("too long to be parsed")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")   # a student's "\d" is not our affair
            tree = ast.parse(source)
        found = list(_Look(tree).everything())
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        found += _words(source[:20 * LONGEST_SOURCE])
    kinds: dict[str, list[tuple[int, str]]] = {}
    for id, line, name in sorted(found, key=lambda one: one[1]):
        kinds.setdefault(id, []).append((line, name))
    told: list[Suspicion] = []
    for id, hits in kinds.items():
        names = list(dict.fromkeys(name for _, name in hits))[:MOST_NAMES]
        told.append(seen(id, None, hits[0][0], seen=", ".join(names)))
    return tuple(told)


def _words(source: str, line: int = 1) -> Iterator[tuple[str, int, str]]:
    for id, pattern in WORDS.items():
        if hit := pattern.search(source):
            yield id, line + source.count("\n", 0, hit.start()), hit.group()
    if hit := NAMED.search(source):
        yield ATTRIBUTES[hit.group()], line + source.count("\n", 0, hit.start()), hit.group()


@dataclass
class _Look:
    tree: ast.Module
    placed: set[str] = field(default_factory=set)            # variables that hold a place or a date
    docs: set[int] = field(default_factory=set)
    lookups: set[int] = field(default_factory=set)           # nodes of a `__getattr__` of its own
    places: int = 0
    known: dict[tuple[str, int], bool] = field(default_factory=dict)   # (question, id of a node): its answer

    def __post_init__(self) -> None:
        self.alias = Names(self.tree)
        self.names, self.own, self.dotted = self.alias.names, self.alias.own, self.alias.dotted
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                self.docs.add(id(node.value))
            elif isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
                self.lookups |= {id(one) for one in ast.walk(node)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and self._is_place(node.value):
                self.placed |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        self.known.clear()   # it was answered before all these variables were known

    def everything(self) -> Iterator[tuple[str, int, str]]:
        for node in ast.walk(self.tree):
            for id, name in self._at(node):
                yield id, getattr(node, "lineno", 0), name

    def _at(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from self._imported(node)
        elif isinstance(node, ast.Attribute):
            if node.attr in ATTRIBUTES:
                yield ATTRIBUTES[node.attr], node.attr
            if node.attr == "__dict__" and self._module(node.value):
                yield "introspection", f"{self.dotted(node.value)}.__dict__"
            yield from self._named(self.dotted(node))
            if node.attr in SOCKETS and "socket" in {name.split(".")[0] for name in self.names.values()}:
                yield "network", node.attr
        elif isinstance(node, ast.Name):
            yield from self._named(self.dotted(node))
            if node.id in ATTRIBUTES:
                yield ATTRIBUTES[node.id], node.id
        elif isinstance(node, ast.Subscript):
            if self.dotted(node.value) == "sys.modules" and _folded(node.slice) is None:
                yield "introspection", "sys.modules[…]"
        elif isinstance(node, ast.MatchClass):
            yield from ((ATTRIBUTES[name], name) for name in node.kwd_attrs if name in ATTRIBUTES)
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield "exit-hook", node.name
        elif isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr):
            folded = _folded(node)
            if folded is not None and id(node) not in self.docs:
                yield from ((id, word) for id, _, word in _words(folded))
        elif isinstance(node, ast.Call):
            yield from self._called(node)
        yield from self.alias.handed_on(node)
        if isinstance(node, ast.Compare | ast.Call) and self.places < MOST_NAMES and self._tells_place(node):
            self.places += 1
            yield "where-it-runs", ast.unparse(node)[:200]
        if isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                yield from self._changed(target, getattr(node, "value", None))
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
            yield from self._changed(node.target, getattr(node, "value", None))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from self._changed(node.optional_vars, None)

    def _named(self, name: str) -> Iterator[tuple[str, str]]:
        parts = name.split(".")
        wholes = (".".join([*parts[:n], "*"]) for n in range(1, len(parts)))
        for known in (name, *wholes):
            if known in NAMES:
                yield NAMES[known], name.rstrip(".")

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for one in node.names:
            name = f"{module}.{one.name}" if module else one.name
            yield from self._named(name)
            yield from self._named(f"{name}.")   # `import ctypes`: the module itself
            yield from ((id, word) for id, _, word in _words(name))
            if one.name in ATTRIBUTES:
                yield ATTRIBUTES[one.name], one.name
            if one.name == "*" and module in CROSSROADS:
                yield "introspection", name
            if name.startswith("autograder"):
                yield "recorder", name

    def _called(self, node: ast.Call) -> Iterator[tuple[str, str]]:
        name = self.dotted(node.func)
        bare = node.func.id if isinstance(node.func, ast.Name) else ""
        builtin = bare in ("exec", "eval", "compile", "__import__") and bare not in self.own | set(self.names)
        if builtin and not (bare == "eval" and node.args and self._of_environment(node.args[0])):
            yield "dynamic-code", bare
        if name in ("operator.attrgetter", "operator.methodcaller") and not all(map(_folded, node.args)):
            yield "dynamic-code", name
        if name == "os.kill" and not (node.args and self._is_call(node.args[0], "os.getpid")):
            yield "process", name
        if name == "atexit.register" and not (
            len(node.args) == 1 and self.dotted(node.args[0]) == "torch.distributed.destroy_process_group"
        ):
            yield "exit-hook", name
        if name.startswith("subprocess."):
            for keyword in node.keywords:
                if keyword.arg in ("preexec_fn", "start_new_session", "process_group"):
                    yield "process", f"{name}({keyword.arg}=…)"
        if name in ("functools.wraps", "functools.update_wrapper") and (node.args[2:] or node.keywords):
            yield "dynamic-code", name
        if bare in ("setattr", "delattr", "getattr", "vars") and node.args:
            yield from self._by_name(bare, node)
        if any(isinstance(one, ast.Name) and one.id == "__file__" for one in node.args) and (
            bare == "open" and any(re.search("[wax+]", _folded(one) or "") for one in node.args[1:])
        ):
            yield "rewrites", "__file__"
        if isinstance(node.func, ast.Attribute):
            yield from self._method(node, node.func.attr, node.func.value)

    def _method(self, node: ast.Call, method: str, of: ast.AST) -> Iterator[tuple[str, str]]:
        changes = ("write_text", "write_bytes", "unlink", "rename", "replace", "symlink_to", "hardlink_to")
        if method in changes and any(getattr(one, "id", "") == "__file__" for one in ast.walk(of)):
            yield "rewrites", "__file__"
        name = self.dotted(of)
        if name == "sys.modules" and method in ("pop", "setdefault", "update", "clear", "__setitem__"):
            yield "patched", name
        if name == "os.environ" and method in ("setdefault", "update", "__setitem__"):
            words = {_folded(one) for one in ast.walk(node)} | {one.arg for one in node.keywords}
            yield from (("environment", str(one)) for one in sorted(words & ENVIRONMENT, key=str))

    def _by_name(self, bare: str, node: ast.Call) -> Iterator[tuple[str, str]]:
        """getattr(os, "_exit"), setattr(dist, "all_reduce", …), vars(dist)[…]."""
        base = self._module(node.args[0])
        name = _folded(node.args[1]) if len(node.args) > 1 else None
        if bare == "getattr" and name is None and id(node) not in self.lookups:
            known = base.split(".")[0] in CROSSROADS or base.startswith("torch.distributed")
            if known or not (base or getattr(node.args[0], "id", "") in OPEN):
                yield "dynamic-code", f"getattr({base or '…'}, …)"
        if not base:
            return
        if bare in ("setattr", "delattr"):
            shown = f"{base}.{name or '…'}"
            if not SETTINGS.match(shown):
                yield "patched", shown
        elif bare == "vars":
            yield "introspection", f"vars({base})"
        elif name is not None:
            yield from self._named(f"{base}.{name}")

    def _module(self, node: ast.AST) -> str:
        """The dotted name of something of torch or of the standard library; "" for anything else."""
        name = self.dotted(node)
        return name if name.split(".")[0] in LIBRARIES else ""

    def _changed(self, target: ast.AST, value: ast.AST | None) -> Iterator[tuple[str, str]]:
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                yield from self._changed(one, None)
        elif isinstance(target, ast.Attribute):
            name = self._module(target)
            if name and not SETTINGS.match(name):
                yield "patched", name
        elif isinstance(target, ast.Subscript):
            name, key = self.dotted(target.value), _folded(target.slice)
            if name == "sys.modules":
                yield "patched", name
            elif name == "os.environ" and key in ENVIRONMENT and value is not None:
                yield "environment", key
            elif base := self._module(_dict_of(target.value)):
                yield "patched", f"{base}.{key or '…'}"

    def _is_call(self, node: ast.AST, name: str) -> bool:
        return isinstance(node, ast.Call) and self.dotted(node.func) == name

    def _once(self, question: str, node: ast.AST, answer: Callable[[ast.AST], bool]) -> bool:
        """`answer(node)`, found once: the answer for a node asks for its children, which are asked too."""
        key = question, id(node)
        if key not in self.known:
            self.known[key] = answer(node)
        return self.known[key]

    def _of_environment(self, node: ast.AST) -> bool:
        """`eval(os.environ["MCI_LIGNES"])`: clumsy, and nothing more."""
        return self._once("environment", node, lambda node: (
            self.dotted(node) in ("os.environ", "os.getenv")
            or any(map(self._of_environment, ast.iter_child_nodes(node)))
        ))

    def _is_place(self, node: ast.AST) -> bool:
        return self._once("place", node, self._find_place)

    def _find_place(self, node: ast.AST) -> bool:
        """The date, the user, the machine or the folder; a difference of two dates is a duration."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            return False
        if isinstance(node, ast.Call) and self.dotted(node.func) in PLACES:
            return True
        if isinstance(node, ast.Name) and (node.id in self.placed or node.id == "__file__"):
            return True
        if isinstance(node, ast.Call | ast.Subscript) and self._of_environment(node):
            return any(_folded(one) in PLACE_VARIABLES for one in ast.walk(node))
        return any(self._is_place(one) for one in ast.iter_child_nodes(node))

    def _tells_place(self, node: ast.Compare | ast.Call) -> bool:
        """Whether one of these is compared with something, or asked (`….startswith("x")`)."""
        if isinstance(node, ast.Call):
            asked = isinstance(node.func, ast.Attribute) and node.func.attr in ASKED
            return isinstance(node.func, ast.Attribute) and asked and self._is_place(node.func.value)
        sides = [node.left, *node.comparators]
        if any(isinstance(one, ast.Constant) and one.value is None for one in sides):
            return False   # whether it is known at all
        numbers = [
            one.value for side in sides for one in ast.walk(side)
            if isinstance(one, ast.Constant) and isinstance(one.value, int | float)
        ]
        date = any(number > EPOCH for number in numbers)
        clock = date and any(self._is_call(one, "time.time") for one in ast.walk(node))
        return clock or any(map(self._is_place, sides))


def _dict_of(node: ast.AST) -> ast.AST:
    """`x` of `x.__dict__` and of `vars(x)`."""
    if isinstance(node, ast.Attribute) and node.attr == "__dict__":
        return node.value
    vars_of = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars"
    return node.args[0] if isinstance(node, ast.Call) and vars_of and node.args else ast.Pass()


def _folded(node: ast.AST) -> str | None:
    """A constant text, also where it is put together from constants; what an f-string fills in is {x}."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bytes):
            return node.value.decode("latin-1")
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        first, second = _folded(node.left), _folded(node.right)
        return first + second if first is not None and second is not None else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_folded(one) or "{x}" for one in node.values)
    return None
