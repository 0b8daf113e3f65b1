"""Temporary settings of a session within a block, safe for threads with a shared session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_IDENTITY = "_slackwater_identity"


class _Override:
    """The values of one setting in active blocks, and the user's value, restored after the last block."""

    def __init__(self, before: str | None) -> None:
        self.before = before
        self.values: list[str] = []


class _Overrides:
    """The overrides of one session, by setting, and the lock for changes to them."""

    def __init__(self) -> None:
        self.changing = threading.Lock()
        self.by_key: dict[str, _Override] = {}


_sessions: dict[str, _Overrides] = {}


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply `settings` to the session within the block. The last block that uses a setting restores the user's value.

    If two concurrent blocks set different values, the later block's value applies. A value set by the user during a
    block stays.
    """
    overrides, begun = _sessions.setdefault(_identity(spark), _Overrides()), list[tuple[str, str]]()
    try:
        with overrides.changing:
            for key, value in settings.items():
                _begin(spark, overrides, key, value)
                begun.append((key, value))
        yield
    finally:
        with overrides.changing:
            for key, value in begun:
                _end(spark, overrides, key, value)


@contextmanager
def listing_on_driver(spark: SparkSession, path_count: int) -> Iterator[None]:
    """Make Spark list `path_count` paths without a job within the block. This is far faster on a local disk."""
    before = spark.conf.get(_LISTING_THRESHOLD)
    if before is None or path_count <= int(before):
        yield
        return
    with with_settings(spark, {_LISTING_THRESHOLD: str(path_count + 1)}):
        yield


def _begin(spark: SparkSession, overrides: _Overrides, key: str, value: str) -> None:
    current = spark.conf.get(key, None)
    if current != value:
        spark.conf.set(key, value)
    overrides.by_key.setdefault(key, _Override(current)).values.append(value)


def _end(spark: SparkSession, overrides: _Overrides, key: str, value: str) -> None:
    override = overrides.by_key[key]
    latest = override.values[-1]
    override.values.remove(value)
    after = override.values[-1] if override.values else override.before
    if not override.values:
        del overrides.by_key[key]
    if after == latest or spark.conf.get(key, None) != latest:
        return
    if after is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, after)


def _identity(spark: SparkSession) -> str:
    """Return an id of the session, equal for all its Python objects: `getActiveSession` creates new objects."""
    found: str | None = spark.__dict__.get(_IDENTITY)
    if found is None:
        is_classic = hasattr(spark, "_jsparkSession")
        found = str(spark._jsparkSession.sessionUUID() if is_classic else spark.session_id)  # type: ignore[attr-defined]
        spark.__dict__[_IDENTITY] = found
    return found
