"""delta-spark's import paths: `from delta.tables import DeltaTable` without delta-spark. Never replaces delta-spark."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from slackwater.errors import InvalidArgument

_NAME = "delta"
_ROOM = Path(__file__).with_name(_NAME)


def install_delta_names() -> None:
    """Let this process import delta-spark's names from Slackwater. Call before the first import of `delta`.

    `delta` contains DeltaTable and `configure_spark_with_delta_pip`, `delta.tables` the table and its builders, and
    `delta.exceptions` the errors of lost commits. Nothing is written to disk, and repeated calls have no effect. Raises
    InvalidArgument if another module `delta` exists, from delta-spark or another package. `import delta` then still
    returns the other module, and nothing is changed.

    >>> slackwater.install_delta_names()
    >>> from delta.tables import DeltaTable
    >>> DeltaTable is slackwater.DeltaTable
    True
    """
    found = _found_elsewhere() or _loaded_elsewhere()
    if found is not None:
        raise InvalidArgument(
            f"`import {_NAME}` finds {found}, and Slackwater never replaces another package. Uninstall delta-spark "
            "(or rename the other module), or import from slackwater instead: DeltaTable, DeltaMergeBuilder, "
            "DeltaOptimizeBuilder, DeltaTableBuilder, IdentityGenerator, errors"
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if not _is_ours(sys.modules.get(_NAME)):
        sys.modules.pop(_NAME, None)


class _Finder(MetaPathFinder):
    """Finds the package if no other finder does. A package installed later takes precedence."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != _NAME or _found_elsewhere() is not None:
            return None
        return spec_from_file_location(_NAME, _ROOM / "__init__.py", submodule_search_locations=[str(_ROOM)])


def _found_elsewhere() -> str | None:
    """Return the origin of another package of this name, or None.

    A folder without `__init__.py` is ignored, because Python treats every folder of this name as a package, also a
    table.
    """
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec = None if find_spec is None or isinstance(finder, _Finder) else find_spec(_NAME, None)
        if spec is not None and spec.loader is not None and spec.origin is not None:
            return str(spec.origin)
    return None


def _loaded_elsewhere() -> str | None:
    module = sys.modules.get(_NAME)
    if module is None or _is_ours(module):
        return None
    return getattr(module, "__file__", None)


def _is_ours(module: ModuleType | None) -> bool:
    return module is not None and getattr(module, "__file__", None) == str(_ROOM / "__init__.py")
