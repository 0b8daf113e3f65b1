"""Settings of a session that hold while a block runs, also if several threads share the session."""

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
    """The values that running blocks need for one setting, and the user's value, which comes back after the last."""

    def __init__(self, before: str | None) -> None:
        self.before = before
        self.values: list[str] = []


class _Overrides:
    """The overrides of one session, by setting, and the lock under which they change."""

    def __init__(self) -> None:
        self.changing = threading.Lock()
        self.by_key: dict[str, _Override] = {}


_sessions: dict[str, _Overrides] = {}


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within the block, the session has these settings; the user's values come back when no block needs them any more.

    Of two blocks that need different values at the same time the later one has its own. A value that the user sets
    during a block stays.
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
    """Within the block, `path_count` paths are looked up without a Spark job: on a local disk that is far faster."""
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
    """What is the same for all objects of Python that stand for one session, as `getActiveSession` makes new ones."""
    found: str | None = spark.__dict__.get(_IDENTITY)
    if found is None:
        is_classic = hasattr(spark, "_jsparkSession")
        found = str(spark._jsparkSession.sessionUUID() if is_classic else spark.session_id)  # type: ignore[attr-defined]
        spark.__dict__[_IDENTITY] = found
    return found
