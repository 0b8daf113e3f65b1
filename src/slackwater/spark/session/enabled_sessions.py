"""The sessions managed by Slackwater: all of an enabled process, except sessions with the opt-out setting."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from slackwater.errors import InvalidArgument, SettingIgnoredWarning, UnsupportedFeature
from slackwater.spark.session.classic_connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENABLED = "spark.slackwater.enabled"
_DEFAULT_SOURCE = "spark.sql.sources.default"
_CATALOG = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Spark's messages for statements with a target other than a table.
_NO_TABLE = (
    "[INTERNAL_ERROR] Unexpected table relation",
    "[UNSUPPORTED_FEATURE.TABLE_OPERATION] The feature is not supported: Table `unknown`",
    "[UNSUPPORTED_INSERT.RDD_BASED]",
)
_process = threading.Event()
_Answer = TypeVar("_Answer")
_answers: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("slackwater_answers", default=None)


@contextmanager
def statement_scope() -> Iterator[None]:
    """Cache the results of `cached_in_statement` within the block, during one statement or a part of one."""
    token = _answers.set({}) if _answers.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _answers.reset(token)


def is_within_statement() -> bool:
    """Return whether `statement_scope` is active. Statements use frames created in the scope only by name."""
    return _answers.get() is not None


def cached_in_statement(spark: SparkSession, question: str, ask: Callable[[], _Answer]) -> _Answer:
    """Return the result of `ask`, a round trip to Spark, cached per session within `statement_scope`."""
    answers = _answers.get()
    if answers is None:
        return ask()
    key = (id(spark), question)
    if key not in answers:
        answers[key] = ask()
    found: _Answer = answers[key]
    return found


def setting_in_statement(spark: SparkSession, key: str) -> str | None:
    """Return a setting of the session, or its default of Spark, cached within `statement_scope`."""
    return cached_in_statement(spark, key, lambda: spark.conf.get(key))


def enable_process() -> None:
    """Enable Slackwater for the present and future sessions of this process."""
    _process.set()


def is_enabled_for(spark: SparkSession) -> bool:
    """Return whether `format("delta")` of the session is Slackwater's.

    Raises InvalidArgument as `opts_out`, and for an enabled session after its `stop`.
    """
    if not _process.is_set():
        return False
    # Check first, because a closed Connect client cannot read settings.
    if is_connect(spark):
        require_running(spark)
    if opts_out(spark):
        return False
    require_running(spark)
    return True


def is_stopped(spark: SparkSession) -> bool:
    """Return whether the session, or a classic session of the same application, was stopped."""
    if not is_connect(spark):
        return spark.sparkContext._jsc is None
    stopped: bool = spark.is_stopped  # type: ignore[attr-defined]  # sessions of Connect have it
    return stopped


def require_running(spark: SparkSession) -> None:
    """Raise InvalidArgument for a stopped session, because later calls would fail with an error of the JVM."""
    if is_stopped(spark):
        raise InvalidArgument(
            "this Spark session was stopped. Create another one with SparkSession.builder.getOrCreate(), and "
            "recreate your tables, frames and lakes with it"
        )


def is_delta_by_default(spark: SparkSession) -> bool:
    """Return whether Delta is the session's default format."""
    return (spark.conf.get(_DEFAULT_SOURCE, None) or "").lower() == "delta"


def opts_out(spark: SparkSession) -> bool:
    """Return whether the session has `spark.slackwater.enabled` = false: its `format("delta")` is then Spark's own.

    Raises InvalidArgument for a value other than true or false.
    """
    text = spark.conf.get(ENABLED, "true") or "true"
    if text.strip().lower() not in ("true", "false"):
        raise InvalidArgument(f"the setting {ENABLED} must be true or false, found {text!r}")
    return text.strip().lower() == "false"


def take_back_catalog(spark: SparkSession) -> None:
    """Unset the session's catalog if it is delta-spark's and cannot be loaded, and warn.

    With this setting, each statement with a table name fails, in SQL and in `spark.catalog`. The setting stays if
    delta-spark is installed or if the error has another cause.
    """
    if spark.conf.get(_CATALOG, None) != _DELTA_CATALOG or _has_catalog(spark):
        return
    spark.conf.unset(_CATALOG)
    if not _has_catalog(spark):
        spark.conf.set(_CATALOG, _DELTA_CATALOG)
        return
    warnings.warn(
        f"the setting {_CATALOG} = {_DELTA_CATALOG} was removed from this session, because Spark has no such class "
        "and each statement with a table name would fail. Leave it and spark.sql.extensions out if delta-spark's JAR "
        "is not installed",
        SettingIgnoredWarning,
        stacklevel=2,
    )


@contextmanager
def explained_view(spark: SparkSession) -> Iterator[None]:
    """Replace Spark's error for INSERT, UPDATE, DELETE and MERGE into a temporary view of a frame by a clear one.

    Raises UnsupportedFeature instead of Spark's error, in enabled sessions.
    """
    try:
        yield
    except Exception as error:  # classic sessions raise Py4J's error, Connect raises other types
        if not any(text in str(error) for text in _NO_TABLE) or not is_enabled_for(spark):
            raise
        raise UnsupportedFeature(
            "the statement cannot change the rows of a temporary view: a view of a Delta table's frame is one "
            "version, for reads only. Change the table by DeltaTable.forPath(spark, path).delete(...), .update(...) "
            'or .merge(...), or append by df.write.format("delta").mode("append").save(path)'
        ) from error


def _has_catalog(spark: SparkSession) -> bool:
    try:
        # The cheapest statement with a load of the catalog's class.
        spark.sql("SHOW CURRENT NAMESPACE").collect()
    except Exception:  # noqa: BLE001  (classic sessions raise Py4J's error, Connect raises other types)
        return False
    return True
