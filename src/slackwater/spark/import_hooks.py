"""Import hooks: run a callback when another package is first imported, without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    # The import would be a tenth of the time to import Slackwater.
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

_awaited: dict[str, list[Callable[[ModuleType], None]]] = {}


def on_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with the module of the full `name`: now if imported, and after each later load.

    Code may remove a module and load it again, so `then` may run more than once.
    """
    if then not in (waiting := _awaited.setdefault(name, [])):
        waiting.append(then)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if name in sys.modules:
        then(sys.modules[name])


class _Finder:
    """A `MetaPathFinder` for watched names. Delegates to the other finders and adds the callbacks after the load."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _awaited:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast("Loader", _Attending(spec.loader))
                return spec
        return None


class _Attending:
    """A `Loader` that calls the callbacks after another loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for then in _awaited[module.__name__]:
            then(module)

    def __getattr__(self, name: str) -> Any:
        # Delegate sources for tracebacks and resources to the loader.
        return getattr(self._loader, name)
