"""What a forked process sees as loaded: what a fresh Python has, and the rest as it is imported, at no cost.

The server loads torch and all that a launch imports sooner or later. A script must not find
`torch.distributed.fsdp` there before it, or torch itself, imports it: what fails at a student's desk must
fail here. So the server notes, while it loads, which module imports which, and hides them all; in a forked
process an import shows one again, with whatever it had imported.
"""

from __future__ import annotations

import builtins
import gc
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any


class Modules:
    """Those that a fresh process does not have."""

    def __init__(self, fresh: set[str]) -> None:
        self.fresh = fresh                          # what it has
        self.edges: dict[str, dict[str, None]] = {}  # module -> those that its loading imports, in order
        self.order: dict[str, int] = {}             # when its loading ended
        self.stack: list[str] = [""]
        self.kept: dict[str, ModuleType] = {}
        # A package's names, what a module is called there, its whole name.
        self.parents: list[tuple[dict[str, Any], str, str]] = []
        self.closures: dict[str, list[str]] = {}
        self.shown: set[str] = set()
        self.copies: dict[int, list[tuple[str, str]]] = {}   # function -> the modules that have it, as what
        self.watched: dict[str, list[tuple[str, int]]] = {}  # hooked module -> its functions that others have

    # -- in the server -------------------------------------------------------------------------------------

    def load(self, names: Iterable[str]) -> None:
        """Import `names` (those that are there) and note who imports whom."""
        bootstrap: Any = sys.modules["_frozen_importlib"]
        everybody: Any = builtins
        find_and_load, import_ = bootstrap._find_and_load, everybody.__import__
        known = set(sys.modules)

        def noted_load(name: str, import_: Any) -> Any:
            self._edge(name)
            if name in sys.modules:
                return find_and_load(name, import_)
            self.stack.append(name)
            try:
                return find_and_load(name, import_)
            finally:
                self.stack.pop()
                self.order[name] = len(self.order)
                for other in [one for one in list(sys.modules) if one not in known]:
                    known.add(other)
                    if other not in self.order and other not in self.stack:   # made by its C code
                        self.order[other] = len(self.order)
                        self.edges.setdefault(name, {})[other] = None

        def noted_import(
            name: str, space: Any = None, locals: Any = None, wanted: Any = (), level: int = 0
        ) -> Any:  # fmt: skip
            result = import_(name, space, locals, wanted or (), level)
            if level:
                package = (space or {}).get("__package__") or ""
                base = package.rsplit(".", level - 1)[0] if level > 1 else package
                name = f"{base}.{name}" if name else base
            self._edge(name)
            for one in wanted or ():
                if f"{name}.{one}" in sys.modules:
                    self._edge(f"{name}.{one}")
            return result

        bootstrap._find_and_load, everybody.__import__ = noted_load, noted_import
        try:
            for name in names:
                try:
                    noted_import(name)
                except ImportError:
                    continue
        finally:
            bootstrap._find_and_load, everybody.__import__ = find_and_load, import_

    def _edge(self, name: str) -> None:
        if self.stack[-1]:
            self.edges.setdefault(self.stack[-1], {})[name] = None

    def ready(self, roots: Iterable[str], hooked: Iterable[str]) -> None:
        """Once all is loaded: prepare what every forked process does."""
        for name, module in list(sys.modules.items()):
            if name in self.fresh or module is None:
                continue
            self.kept[name] = module
            above, _, own = name.rpartition(".")
            package = sys.modules.get(above)
            imported = name in self.order and getattr(module, "__spec__", None) is not None
            there = package.__dict__ if package is not None and above not in self.fresh else {}
            if imported and there.get(own) is module:
                self.parents.append((there, own, name))
        for name in roots if not self.closures else ():
            self.closures[name] = self._closure(name)
        originals: dict[int, Any] = {}
        for name in hooked:
            if name in self.kept:
                originals |= {id(one): one for one in self.kept[name].__dict__.values() if callable(one)}
        for name, module in self.kept.items():
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in originals and name in self.order:
                    self.copies.setdefault(id(value), []).append((name, attribute))
        for name in hooked:
            if name in self.kept:
                self.watched[name] = [
                    (attribute, id(value)) for attribute, value in self.kept[name].__dict__.items()
                    if any(other != name for other, _ in self.copies.get(id(value), ()))]

    def _closure(self, name: str) -> list[str]:
        """`name` and all that importing it loads, in the order in which their loading ended."""
        found, left = {name}, [name]
        while left:
            for other in self.edges.get(left.pop(), ()):
                if other not in found:
                    found.add(other)
                    left.append(other)
        return sorted((one for one in found if one in self.kept), key=lambda one: self.order.get(one, 0))

    def hide(self) -> None:
        for name in self.kept:
            sys.modules.pop(name, None)
        for space, own, _ in self.parents:
            space.pop(own, None)
        self.attributes = {name: (space, own) for space, own, name in self.parents}
        found, self.watch = finder(self)
        sys.meta_path.insert(0, found)

    # -- in a forked process -------------------------------------------------------------------------------

    def hide_again(self) -> None:
        """What our own code has imported meanwhile."""
        for name in self.shown:
            sys.modules.pop(name, None)
            if name in self.attributes:
                space, own = self.attributes[name]
                space.pop(own, None)
        self.shown.clear()

    def show(self, name: str) -> list[str]:
        """`name` is being imported, and all that its loading imported: those that were not yet, in order."""
        new = []
        for one in self.closures.get(name) or self._closure(name):
            if one in self.shown:
                continue
            self.shown.add(one)
            new.append(one)
            if one != name:   # which the import itself puts there
                sys.modules[one] = self.kept[one]
            if one in self.attributes:
                space, own = self.attributes[one]
                space[own] = self.kept[one]
        return new

    def hook(self, hooks: dict[str, Any], recorder: Any, names: Iterable[str]) -> None:
        for name in names:
            if name in hooks:
                self._hook(name, hooks[name], recorder, self.kept[name])
                del hooks[name]   # now only: what it imports meanwhile arrives here too

    def _hook(self, own: str, hook: Any, recorder: Any, module: ModuleType) -> None:
        """As the recorder does it when a module has just been loaded: what was loaded later has copied what
        the hook put there. (Nothing else is looked at: what is, is no longer shared with the server.)
        """
        try:
            hook(recorder, module)
        except Exception:
            return
        for name, old in self.watched.get(own, ()):
            value = module.__dict__.get(name)
            if id(value) != old:
                for other, attribute in self.copies[old]:
                    space = self.kept[other].__dict__
                    if self.order[other] > self.order[own] and id(space.get(attribute)) == old:
                        space[attribute] = value


def finder(modules: Modules) -> tuple[Any, Any]:
    """For sys.meta_path: what finds the hidden modules; and what is called with the function that is told of
    the names that an import shows.

    It holds nothing that one finds by looking at it, as the recorder's own does not: modules that nobody has
    hooked yet, among others.
    """
    arrived: Any = None

    def watch(told: Any) -> None:
        nonlocal arrived
        arrived = told

    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Shows nothing by itself: a script may ask what is there."""
        module = modules.kept.get(name)
        if module is None or name in modules.shown:
            return None
        own = getattr(module, "__spec__", None)
        spec = ModuleSpec(name, loader, origin=getattr(own, "origin", None))   # type: ignore[arg-type]
        spec.submodule_search_locations = getattr(own, "submodule_search_locations", None)
        spec.has_location = getattr(own, "has_location", False)
        return spec

    new: dict[str, list[str]] = {}
    specs = {name: getattr(module, "__spec__", None) for name, module in modules.kept.items()}

    class Loader:
        @staticmethod
        def create_module(spec: Any) -> ModuleType:
            new[spec.name] = modules.show(spec.name)
            return modules.kept[spec.name]

        @staticmethod
        def exec_module(module: ModuleType) -> None:
            name = module.__spec__.name   # type: ignore[union-attr]
            module.__spec__ = specs[name]
            if arrived is not None:
                arrived(new.pop(name, []))

        def __getattr__(self, attribute: str) -> Any:   # get_source, is_package…
            return lambda name, *more: getattr(specs[name].loader, attribute)(name, *more)   # type: ignore[union-attr]

    loader = Loader()

    class Finder:
        pass

    Finder.find_spec = staticmethod(find_spec)   # type: ignore[attr-defined]
    return Finder(), watch


def settle() -> None:
    """So that a forked process touches few of the pages that it shares with the server: neither the garbage
    collector, nor what torch undoes of its own at the end of a process, piece by piece, for nobody.
    """
    import linecache  # not before what is loaded is noted
    import weakref

    registry = weakref.finalize._registry   # type: ignore[attr-defined]
    for one in list(registry):
        one.atexit = False
    linecache.cache.clear()
    gc.collect()
    gc.freeze()
