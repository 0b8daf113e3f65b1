"""A process that imported Slackwater and forgot to enable it is told so, where Spark would say that it knows no delta.

PySpark's readers and writers are watched for this one error, in each mode, once PySpark is imported; PySpark itself is
not imported here. Where `format("delta")` is known to Spark, by delta-spark's JAR, nothing changes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from slackwater.errors import InvalidArgument

_READERS_AND_WRITERS = ("pyspark.sql.readwriter", "pyspark.sql.connect.readwriter")
_UNKNOWN, _DELTA = "DATA_SOURCE_NOT_FOUND", "data source: delta"
_FORGOTTEN = (
    'format("delta") is not known to this Spark session: call slackwater.enable(spark) once before it is used (where '
    "spark.slackwater.enabled is false, Slackwater leaves the session alone)"
)


def watch() -> None:
    """Watch PySpark's readers and writers, those that are imported later as soon as they are."""
    for name in _READERS_AND_WRITERS:
        if name in sys.modules:
            _watch(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds nothing itself: what the others find for one of the modules is watched when it has been loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _READERS_AND_WRITERS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Watching(spec.loader)
                return spec
        return None


class _Watching(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _watch(module)

    def __getattr__(self, name: str) -> Any:
        # Sources for tracebacks, resources: the loader's own.
        return getattr(self._loader, name)


def _watch(module: ModuleType) -> None:
    for kind, methods in (("DataFrameReader", ("load",)), ("DataFrameWriter", ("save", "saveAsTable"))):
        for method in methods:
            _explain(getattr(module, kind), method)


def _explain(kind: type, name: str) -> None:
    original = getattr(kind, name)
    if getattr(original, "_slackwater_explained", False):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = original(self, *args, **kwargs)
            # A reader of Connect asks the server when its frame is used; this one is asked now.
            if str(self.__dict__.get("_format")).lower() == "delta" and answer is not None:
                _ = answer.schema
        except Exception as error:
            text = str(error)
            if _UNKNOWN in text and _DELTA in text.lower():
                raise InvalidArgument(_FORGOTTEN) from error
            raise
        return answer

    method._slackwater_explained = True  # type: ignore[attr-defined]
    setattr(kind, name, method)
