"""Hint for Spark's DATA_SOURCE_NOT_FOUND error about "delta", if Slackwater is imported but not enabled.

PySpark's readers and writers are watched for this error, in each mode, after the import of PySpark. This module does
not import PySpark. If Spark knows `format("delta")` from delta-spark's JAR, nothing changes.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from slackwater.error_classes import UNSEEN
from slackwater.errors import InvalidArgument
from slackwater.spark.import_hooks import on_import

_READERS_AND_WRITERS = ("pyspark.sql.readwriter", "pyspark.sql.connect.readwriter")
_UNKNOWN = ("DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_NOT_EXIST", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE")
_DELTA = ("data source: delta", "data source 'delta'", 'data source "delta"')
_FORGOTTEN = (
    'this Spark session does not know format("delta"). Call slackwater.enable(spark) before its first use. If '
    "spark.slackwater.enabled is false, Slackwater does not change the session"
)


def watch() -> None:
    """Watch PySpark's readers and writers, including later imports."""
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
            # Resolve the schema now, because a Connect reader contacts the server only when its frame is used.
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
    """Return whether the error text means an unknown format `delta`."""
    lowered = text.lower()
    is_named = any(name in text for name in _UNKNOWN) and any(name in lowered for name in _DELTA)
    return is_named or UNSEEN in text
