"""Writer options: names as delta-spark's, in any case.

Source: delta-spark's DeltaOptions and session settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument
from slackwater.spark.options import Options

_CONF = "spark.databricks.delta."
_MODES = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}
_PARQUET_OPTIONS = ("compression", "maxRecordsPerFile")
_CODECS = ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4raw", "lz4_raw", "zstd")


@dataclass(frozen=True)
class WriteOptions:
    """One write as it was asked for; `given` are the options as they came."""

    mode: str
    given: Options
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    check_replace_where: bool = True
    dynamic_partitions: bool = False
    txn_app_id: str | None = None
    txn_version: int | None = None
    user_metadata: str | None = None
    data_change: bool = True

    @property
    def properties(self) -> dict[str, str]:
        """The options that become table properties where the table is created: `delta.…`."""
        return {name: self.given[name] for name in self.given if name.lower().startswith("delta.")}

    @property
    def parquet(self) -> dict[str, str]:
        """The options for Spark's Parquet writer."""
        names = {name.lower(): name for name in _PARQUET_OPTIONS}
        taken = {names[n.lower()]: self.given[n] for n in self.given if n.lower() in names}
        return taken | {n: self.given[n] for n in self.given if n.lower().startswith("parquet.")}


def write_options(
    spark: SparkSession,
    mode: str,
    options: Mapping[str, Any],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> WriteOptions:
    """The options of one write, with the session's settings as defaults.

    Raises InvalidArgument for an unknown mode, a value that is none, or options that exclude each other.
    """
    given = Options(options)
    canonical = _MODES.get(mode.lower())
    if canonical is None:
        raise InvalidArgument(f"unknown write mode {mode!r}: use one of {', '.join(_MODES)}")
    if partition_by and cluster_by:
        raise InvalidArgument("a table is partitioned or clustered, not both")
    app_id = given.get("txnAppId") or _setting(spark, "write.txnAppId")
    text = given.get("txnVersion") or _setting(spark, "write.txnVersion")
    if (app_id is None) != (text is None):
        raise InvalidArgument("give both txnAppId and txnVersion, or neither: together they make a write idempotent")
    request = WriteOptions(
        canonical,
        given,
        tuple(partition_by),
        tuple(cluster_by),
        merge_schema=_flag(spark, given, "mergeSchema", "schema.autoMerge.enabled"),
        overwrite_schema=given.flag("overwriteSchema"),
        replace_where=given.get("replaceWhere"),
        check_replace_where=_setting(spark, "replaceWhere.constraintCheck.enabled") != "false",
        dynamic_partitions=_dynamic(spark, given, canonical),
        txn_app_id=app_id,
        txn_version=None if text is None else _version(text),
        user_metadata=given.get("userMetadata") or _setting(spark, "commitInfo.userMetadata"),
        data_change="datachange" not in {n.lower() for n in given} or given.flag("dataChange"),
    )
    _validate(request)
    return request


def reset_version(spark: SparkSession, request: WriteOptions) -> None:
    """Take the session's `txnVersion` away where it served this write and the session says that it serves but one."""
    from_session = request.txn_version is not None and request.given.get("txnVersion") is None
    if from_session and (_setting(spark, "write.txnVersion.autoReset.enabled") or "false").lower() == "true":
        spark.conf.unset(f"{_CONF}write.txnVersion")


def _validate(request: WriteOptions) -> None:
    overwrite = request.mode == "overwrite"
    request.given.integer("maxRecordsPerFile")
    codec = request.given.get("compression", "none")
    if codec.lower() not in _CODECS:
        raise InvalidArgument(f"option compression must be one of {', '.join(_CODECS)}, found {codec!r}")
    if request.replace_where is not None and not overwrite:
        raise InvalidArgument(f"replaceWhere needs mode overwrite, found mode {request.mode}")
    if request.overwrite_schema and not overwrite:
        raise InvalidArgument(f"overwriteSchema needs mode overwrite, found mode {request.mode}")
    if request.overwrite_schema and (request.replace_where is not None or request.dynamic_partitions):
        raise InvalidArgument(
            "overwriteSchema replaces the whole table: it cannot go with replaceWhere or dynamic partition overwrite; "
            "use mergeSchema to add columns"
        )
    if request.replace_where is not None and request.dynamic_partitions:
        raise InvalidArgument("give replaceWhere or partitionOverwriteMode=dynamic, not both")
    if not request.data_change and not overwrite:
        raise InvalidArgument("dataChange=false only rearranges rows that are there: it needs mode overwrite")


def _dynamic(spark: SparkSession, given: Options, mode: str) -> bool:
    text = given.get("partitionOverwriteMode")
    from_session = text is None
    if from_session:
        text = spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static") or "static"
    if text is None or text.lower() not in ("static", "dynamic"):
        raise InvalidArgument(f"partitionOverwriteMode must be static or dynamic, found {text!r}")
    if text.lower() == "static" or mode != "overwrite":
        return False
    # The option beats the session's setting, and a condition given here beats it as well.
    return not (from_session and (given.get("replaceWhere") is not None or given.flag("overwriteSchema")))


def _flag(spark: SparkSession, given: Options, option: str, setting: str) -> bool:
    if given.get(option) is not None:
        return given.flag(option)
    return (_setting(spark, setting) or "false").lower() == "true"


def _setting(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(f"{_CONF}{name}", None)


def _version(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise InvalidArgument(f"option txnVersion must be a whole number, found {text!r}") from error
