"""A process that imported Slackwater and forgot to enable it is told so, where Spark would say that it knows no delta.

PySpark's readers and writers are watched for this one error, in each mode, once PySpark is imported; PySpark itself is
not imported here. Where `format("delta")` is known to Spark, by delta-spark's JAR, nothing changes.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.spark.import_hooks import on_import

_READERS_AND_WRITERS = ("pyspark.sql.readwriter", "pyspark.sql.connect.readwriter")
UNSEEN = "in a way that Slackwater does not see"
"""The words of the provider that stands for `delta` in a catalog, where Slackwater did not answer first."""
_UNKNOWN = ("DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_NOT_EXIST", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE")
_DELTA = ("data source: delta", "data source 'delta'", 'data source "delta"')
_FORGOTTEN = (
    'format("delta") is not known to this Spark session: call slackwater.enable(spark) once before it is used (where '
    "spark.slackwater.enabled is false, Slackwater leaves the session alone)"
)


def watch() -> None:
    """Watch PySpark's readers and writers, also those that are imported later."""
    for name in _READERS_AND_WRITERS:
        on_import(name, _watch)


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
            if _is_unknown(str(error)):
                raise InvalidArgument(_FORGOTTEN) from error
            raise
        return answer

    method._slackwater_explained = True  # type: ignore[attr-defined]
    setattr(kind, name, method)


def _is_unknown(text: str) -> bool:
    """Whether an error says that `delta` is not answered for."""
    lowered = text.lower()
    is_named = any(name in text for name in _UNKNOWN) and any(name in lowered for name in _DELTA)
    return is_named or UNSEEN in text
