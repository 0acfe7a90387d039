"""How a script calls what it imported: other names for a module, and modules handed on, out of sight."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.verdict.script_names import ASKS, CROSSROADS, LIBRARIES, MODULES, READERS, TAKERS

CHAIN = 4   # a name of a name of a name


class Names:
    """What each name of a script stands for, dotted: `d` of `import torch.distributed as d`."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, str] = {}
        self.own: set[str] = set()             # what the script itself defines
        self.modules: set[str] = set(MODULES)
        self._fine: set[int] = set()           # ids of nodes that stand where a module may stand
        self._called: set[int] = set()
        pairs: list[tuple[ast.AST, ast.AST]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    name = one.name if one.asname else one.name.split(".")[0]
                    self.names[one.asname or name] = name
                    self.modules.add(name)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.own.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Subscript):
                self._fine.add(id(node.value))
            elif isinstance(node, ast.Compare):   # `name in sys.modules`
                self._fine |= {id(one) for one in node.comparators}
            elif isinstance(node, ast.Call):
                self._called.add(id(node.func))
                if isinstance(node.func, ast.Name) and node.func.id in ASKS:
                    self._fine |= {id(one) for one in node.args[:1]}
            elif isinstance(node, ast.Assign):
                pairs += [pair for target in node.targets for pair in _paired(target, node.value)]
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                pairs += _paired(node.target, node.value)
        imported = set(self.names)
        for _ in range(CHAIN):
            for target, value in pairs:
                name = self.dotted(value)
                if isinstance(target, ast.Name) and name and target.id not in imported:
                    self.names[target.id] = name
                    self._fine.add(id(value))

    def dotted(self, node: ast.AST) -> str:
        """`dist.all_reduce` is torch.distributed.all_reduce; "" for what was not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self.names:
            found = [*self.names[node.id].split("."), *reversed(parts)]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name | ast.Attribute):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if not isinstance(key, str) or self.dotted(node.value) != "sys.modules":
                return ""
            found = [*key.split("."), *reversed(parts)]   # sys.modules["os"]
        else:
            return ""
        last = max((n for n, part in enumerate(found) if part in CROSSROADS), default=0)
        return ".".join(found[last:])

    def handed_on(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """A module, or a function that reads or runs whatever it is told, where one cannot see what becomes
        of it: `f(sys)`, `[sys]`, `map(getattr, …)`.
        """
        if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            return
        if not isinstance(node.ctx, ast.Load) or id(node) in self._fine:
            return
        name = self.dotted(node)
        if name in self.modules and name.split(".")[0] in LIBRARIES:
            yield "introspection", name
        elif id(node) in self._called:
            return
        elif name in TAKERS:
            yield "dynamic-code", name
        elif isinstance(node, ast.Name) and node.id in READERS and node.id not in self.own | set(self.names):
            yield "dynamic-code", node.id


def _paired(target: ast.AST, value: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """`a, b = x, y`: a with x, b with y."""
    if not (isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)):
        return [(target, value)]
    return [pair for both in zip(target.elts, value.elts, strict=False) for pair in _paired(*both)]
