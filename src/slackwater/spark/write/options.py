"""Writer options, with the names of delta-spark in any case.

Source: delta-spark's DeltaOptions and session settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.parquet_version import WRITER_VERSION, page_version
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import ApplicationVersion, SessionSettings
from slackwater.spark.storage.row_transport import parse_transport

_MODES = {
    "append": "append",
    "overwrite": "overwrite",
    "ignore": "ignore",
    "error": "error",
    "errorifexists": "error",
    "default": "error",
}
_OUTPUT_MODES = {"append": "append", "complete": "overwrite"}
_NOT_OF_STREAMS = (
    "txnappid", "txnversion", "replacewhere", "replaceusing", "replaceon", "targetalias", "datachange",
    "partitionoverwritemode",
)  # fmt: skip
_MATCHING = ("replaceUsing", "replaceOn")
# Names separated by commas; text in backticks is one name.
_LISTED = re.compile(r"(?:\A|(?<=,))((?:`(?:[^`]|``)*`|[^`,])*)(?=,|\Z)")
_PARQUET_OPTIONS = ("compression", "maxRecordsPerFile")
_CODECS = ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4raw", "lz4_raw", "zstd")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A batch of a streaming query: the query's id from its checkpoint, and the batch number from 0."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Matching:
    """The match of data rows with replaced table rows: equal values in `columns`, or the condition `on`.

    `target_alias` is the table's name in the condition.
    """

    columns: tuple[str, ...] = ()
    on: str | None = None
    target_alias: str | None = None

    @property
    def parameters(self) -> dict[str, str]:
        """The operation parameters for the table history."""
        if self.on is None:
            return {"replaceUsingCols": f"({', '.join(self.columns)})"}
        return {"replaceOnCond": self.on}


@dataclass(frozen=True)
class WriteOptions:
    """The requested options of one write. `given` are the options before parsing.

    `assigns`: values are cast by the session's store assignment. `operation` is the statement that defines the table
    and writes its first rows, `description` the table description of this statement. `rows` is the row transport, see
    `choose_transport`. `streamed`: the write belongs to a stream. `micro_batch` is its batch.
    """

    mode: str
    given: Options
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    merge_schema: bool = False
    overwrite_schema: bool = False
    replace_where: str | None = None
    matching: Matching | None = None
    check_replace_where: bool = True
    replaces_where_data_columns: bool = True
    dynamic_partitions: bool = False
    application: ApplicationVersion | None = None
    user_metadata: str | None = None
    user_name: str | None = None
    data_change: bool = True
    assigns: bool = False
    optimizes_write: bool | None = None
    rows: str | None = None
    own_properties: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None
    description: str | None = None
    streamed: bool = False
    micro_batch: MicroBatch | None = None

    def is_done(self, snapshot: Snapshot) -> bool:
        """Return whether the log records this write of the application as done."""
        return self.application is not None and self.application.is_reached(snapshot)

    @property
    def casts(self) -> bool:
        """Return whether values are cast to the table's types. Not if the rows replace the table's schema."""
        return self.assigns and not (self.overwrite_schema and self.mode == "overwrite")

    @property
    def properties(self) -> dict[str, str]:
        """The properties of a new table: the options `delta.…` and the explicit properties."""
        named = {name: self.given[name] for name in self.given if name.lower().startswith("delta.")}
        return {**named, **self.own_properties}

    @property
    def parquet(self) -> dict[str, str]:
        """The options for Spark's Parquet writer."""
        names = {name.lower(): name for name in _PARQUET_OPTIONS}
        taken = {names[n.lower()]: self.given[n] for n in self.given if n.lower() in names}
        return taken | {n: self.given[n] for n in self.given if n.lower().startswith("parquet.")}


def write_options(
    settings: SessionSettings,
    mode: str,
    options: Mapping[str, Any],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> WriteOptions:
    """Return the options of one write. `settings` of the session are the defaults.

    Raises InvalidArgument for an unknown `mode`, for a mistyped name or an invalid value in `options`, or for options
    that exclude each other.
    """
    given = Options(options)
    given.require_meant()
    canonical = _MODES.get(mode.lower())
    if canonical is None:
        raise InvalidArgument(
            f"unknown write mode {mode!r}. Use one of {', '.join(_MODES)}", error_class="DELTA_ILLEGAL_OPTION"
        )
    if partition_by and cluster_by:
        raise InvalidArgument(
            "a table is partitioned or clustered, not both", error_class="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"
        )
    app_id, app_version = given.get("txnAppId"), given.get("txnVersion")
    request = WriteOptions(
        canonical,
        given,
        tuple(partition_by),
        tuple(cluster_by),
        merge_schema=settings.merges_schema if given.get("mergeSchema") is None else given.flag("mergeSchema"),
        overwrite_schema=given.flag("overwriteSchema"),
        replace_where=given.get("replaceWhere"),
        matching=_matching(given),
        check_replace_where=settings.checks_replace_where,
        replaces_where_data_columns=settings.replaces_where_data_columns,
        dynamic_partitions=_dynamic(settings, given, canonical),
        application=(
            settings.application
            if app_id is None and app_version is None
            else ApplicationVersion.of(app_id, app_version, ("txnAppId", "txnVersion"))
        ),
        user_metadata=given.get("userMetadata", settings.user_metadata),
        user_name=given.get("userName", settings.user_name),
        optimizes_write=None if given.get("optimizeWrite") is None else given.flag("optimizeWrite"),
        rows=given.get("rows"),
        data_change="datachange" not in {n.lower() for n in given} or given.flag("dataChange"),
    )
    _validate(request)
    return request


def stream_options(
    settings: SessionSettings,
    output_mode: str,
    options: Mapping[str, Any],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> WriteOptions:
    """Return the options of every micro-batch of a query. `output_mode` is append or complete, in any case.

    Options that select replaced rows or count writes are ignored, because the query determines both. overwriteSchema is
    ignored except in complete mode. Raises InvalidArgument like `write_options`, and for other output modes.
    """
    mode = _OUTPUT_MODES.get(output_mode.lower())
    if mode is None:
        raise InvalidArgument(
            f"output mode {output_mode!r} is not supported for a stream into a Delta table. Use append or complete, or "
            "merge each batch into the table with foreachBatch",
            error_class="DELTA_UNSUPPORTED_OUTPUT_MODE",
        )
    left_out = _NOT_OF_STREAMS if mode == "overwrite" else (*_NOT_OF_STREAMS, "overwriteschema")
    given = {key: value for key, value in options.items() if key.lower() not in left_out}
    request = write_options(settings, mode, given, partition_by, cluster_by)
    return replace(request, dynamic_partitions=False, application=None, assigns=True, streamed=True)


def of_micro_batch(request: WriteOptions, batch: MicroBatch) -> WriteOptions:
    """Return the options of one batch, with the batch as application version, so that the batch is written once."""
    return replace(request, micro_batch=batch, application=ApplicationVersion(batch.query_id, batch.batch_id))


def _validate(request: WriteOptions) -> None:
    overwrite = request.mode == "overwrite"
    if request.matching is not None:
        _validate_matching(request, _MATCHING[0] if request.matching.columns else _MATCHING[1])
    request.given.integer("maxRecordsPerFile")
    parse_transport(request.rows)
    codec = request.given.get("compression", "none")
    if codec.lower() not in _CODECS:
        raise InvalidArgument(
            f"option compression must be one of {', '.join(_CODECS)}, found {codec!r}",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    if (pages := request.given.get(WRITER_VERSION)) is not None:
        page_version(f"option {WRITER_VERSION}", pages)
    if request.replace_where is not None and not overwrite:
        raise InvalidArgument(
            f"replaceWhere needs mode overwrite, found mode {request.mode}", error_class="DELTA_ILLEGAL_USAGE"
        )
    if request.overwrite_schema and not overwrite:
        raise InvalidArgument(
            f"overwriteSchema needs mode overwrite, found mode {request.mode}", error_class="DELTA_ILLEGAL_USAGE"
        )
    if request.overwrite_schema and (request.replace_where is not None or request.dynamic_partitions):
        raise InvalidArgument(
            "overwriteSchema replaces the whole table, so it cannot be combined with replaceWhere or dynamic partition "
            "overwrite. Use mergeSchema to add columns",
            error_class="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"
            if request.dynamic_partitions
            else "DELTA_ILLEGAL_USAGE",
        )
    if request.replace_where is not None and request.dynamic_partitions:
        raise InvalidArgument(
            "give replaceWhere or partitionOverwriteMode=dynamic, not both",
            error_class="DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        )
    if not request.data_change and not overwrite:
        raise InvalidArgument(
            "dataChange=false only rearranges existing rows. Use mode overwrite",
            error_class="DELTA_ILLEGAL_USAGE",
        )


def _matching(given: Options) -> Matching | None:
    """Return the match requested by `replaceUsing` or `replaceOn`."""
    using, on, alias = given.get("replaceUsing"), given.get("replaceOn"), given.get("targetAlias")
    if using is not None and on is not None:
        raise InvalidArgument(
            "give replaceUsing or replaceOn, not both", error_class="DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"
        )
    if alias is not None and on is None:
        raise InvalidArgument(
            "targetAlias is the table's name in the condition of replaceOn, which is missing. Set replaceOn",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    if using is not None:
        columns = tuple(name.strip() for name in _LISTED.findall(using))
        if not all(columns) or not columns:
            raise InvalidArgument(
                f"replaceUsing must be a comma-separated list of columns, found {using!r}",
                error_class="DELTA_ILLEGAL_OPTION",
            )
        return Matching(columns)
    if on is not None and not on.strip():
        raise InvalidArgument(
            "replaceOn must be a condition on the table and the data, found an empty text",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    return None if on is None else Matching(on=on, target_alias=alias)


def _validate_matching(request: WriteOptions, name: str) -> None:
    """Raise InvalidArgument if other options contradict `replaceUsing` or `replaceOn`."""
    if request.mode != "overwrite":
        raise InvalidArgument(
            f"{name} needs mode overwrite, found mode {request.mode}", error_class="DELTA_ILLEGAL_USAGE"
        )
    given = request.given
    partial = given.get("partitionOverwriteMode") is not None
    for other, is_given, error_class in (
        (
            "replaceWhere",
            request.replace_where is not None,
            "DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING",
        ),
        ("partitionOverwriteMode", partial, "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING"),
    ):
        if is_given:
            raise InvalidArgument(f"give {name} or {other}, not both", error_class=error_class)
    for other, is_given in (("overwriteSchema", request.overwrite_schema), ("dataChange", not request.data_change)):
        if is_given:
            raise InvalidArgument(
                f"{name} replaces only some rows of the table, so it cannot be combined with {other}={given[other]}",
                error_class="DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
            )


def _dynamic(settings: SessionSettings, given: Options, mode: str) -> bool:
    text = given.get("partitionOverwriteMode")
    from_session = text is None
    if text is None:
        text = settings.partition_overwrite_mode
    if text.lower() not in ("static", "dynamic"):
        raise InvalidArgument(
            f"partitionOverwriteMode must be static or dynamic, found {text!r}", error_class="DELTA_ILLEGAL_OPTION"
        )
    if text.lower() == "static" or mode != "overwrite":
        return False
    # The option overrides the session's setting, and so do a condition and overwriteSchema of this write.
    replaces_rows = any(given.get(name) is not None for name in ("replaceWhere", *_MATCHING))
    return not (from_session and (replaces_rows or given.flag("overwriteSchema")))
