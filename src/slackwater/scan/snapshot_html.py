"""HTML card of a table version: totals, columns, protocol requirements and last commits.

Reads only the checksum of the version, its commit if the snapshot does not know the commit time, and the displayed
commits. Runs no Spark job.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow.compute as pc

from slackwater.errors import SlackwaterError
from slackwater.html.components import (
    badge,
    badges,
    card,
    code,
    disclosure,
    facts,
    moment,
    muted,
    pairs,
    settings,
    table,
)
from slackwater.html.element import Child, Markup, element, fragment
from slackwater.html.number_format import ago, counted, number, short_bytes, shortened
from slackwater.html.redaction import without_secrets
from slackwater.log.checksum_totals import file_totals
from slackwater.log.history_html import commit_table, truncate_text
from slackwater.log.snapshot import LogSnapshot
from slackwater.log.table_detail import clustering_columns, to_moment
from slackwater.protocol.actions.commit_info import info_of
from slackwater.protocol.features.identity_columns import HIGH_WATER_MARK, START, STEP
from slackwater.protocol.features.write_expressions import checks
from slackwater.protocol.properties.registry import CATALOG_OWNER_CONF, CONSTRAINT_PREFIX, MANAGED_COMMIT_OWNER_CONF
from slackwater.protocol.schema.schema import COMMENT, CURRENT_DEFAULT, GENERATION_EXPRESSION, StructField
from slackwater.stats.file_stats import record_counts

T = TypeVar("T")

LAST_COMMITS = 5
"""Number of commits on the card of a table."""

_MOST_COLUMNS = 30
_LONGEST_TYPE = 120
# For more file actions, rows are not counted from statistics.
_MOST_COUNTED_FILES = 2_000


def snapshot_card(
    snapshot: LogSnapshot,
    kind: str = "Snapshot",
    name: str | None = None,
    marks: Sequence[Markup] = (),
    commits: int = 0,
    note: str | None = None,
) -> Markup:
    """Return the card of `snapshot` titled `name`, by default its location, with its last `commits` read from the log.

    Values not available from the log are omitted. Raises InvalidSchema, CorruptTable.
    """
    place = without_secrets(snapshot.table.location)
    committed = to_moment(_or_none(lambda: snapshot.timestamp_ms))
    now = dt.datetime.now(dt.timezone.utc)
    size = size_if_cheap(snapshot)
    rows = rows_if_cheap(snapshot)
    when = None if committed is None else fragment(moment(committed), " ", muted(f"UTC, {ago(committed, now)}"))
    described = snapshot.metadata.description
    return card(
        kind,
        name or place,
        None if name is None else element("div", code(place), class_="sw-muted sw-small"),
        element("p", truncate_text(described)) if described else None,
        facts(
            {
                "version": snapshot.version,
                "rows": None if rows is None else number(rows),
                "files": None if size is None else number(size[0]),
                "size": None if size is None else short_bytes(size[1]),
                "committed": when,
            }
        ),
        _columns(snapshot),
        _commits(snapshot, commits),
        _demands(snapshot),
        badges=marks,
        note=note,
    )


def size_if_cheap(snapshot: LogSnapshot) -> tuple[int, int] | None:
    """Return the number of live files and their bytes, None if a checkpoint would have to be read."""
    if snapshot.segment.checkpoint is None:
        return _or_none(lambda: file_totals(snapshot))
    found = _or_none(snapshot.checksum)
    return (
        None
        if found is None or found.configuration != snapshot.configuration
        else (
            found.num_files,
            found.table_size_bytes,
        )
    )


def rows_if_cheap(snapshot: LogSnapshot) -> int | None:
    """Return the number of live rows from file statistics, None if not all files have statistics.

    None also for a version with a checkpoint, or with more than 2,000 file actions.
    """
    if snapshot.segment.checkpoint is not None or snapshot.state.newest.num_rows > _MOST_COUNTED_FILES:
        return None
    files = _or_none(lambda: snapshot.live_files(["stats", "deletionVector"]))
    if files is None:
        return None
    physical = record_counts(files)
    if physical.null_count:
        return None
    vectors = (vector["cardinality"] for vector in files["deletionVector"].to_pylist() if vector is not None)
    total: int = pc.sum(physical, min_count=0).as_py() - sum(vectors)
    return total


def _or_none(read: Callable[[], T]) -> T | None:
    """Return the result of `read`, None if it raises a SlackwaterError."""
    try:
        return read()
    except SlackwaterError:
        return None


def _columns(snapshot: LogSnapshot) -> Child:
    schema = snapshot.schema
    partitions = snapshot.metadata.partition_columns
    clustering = _or_none(lambda: clustering_columns(snapshot)) or []
    rows = [_column(column, column.name in partitions, column.name in clustering) for column in schema]
    shown = table(["column", "type", ""], rows[:_MOST_COLUMNS], leaves_out_empty=True)
    layout = [f"partitioned by {', '.join(partitions)}"] if partitions else []
    layout += [f"clustered by {', '.join(clustering)}"] if clustering else []
    summary = fragment(counted(len(rows), "column"), *(muted(f" · {part}") for part in layout))
    more = len(rows) - _MOST_COLUMNS
    left = element("p", f"and {counted(more, 'column')} more", class_="sw-note") if more > 0 else None
    return disclosure(summary, shown, left, is_open=True)


def _column(column: StructField, is_partition: bool, is_clustering: bool) -> Sequence[Child]:
    kind = str(column.type)
    told: list[Child] = [badge("partition", "accent")] if is_partition else []
    told += [badge("clustering", "accent")] if is_clustering else []
    told += [] if column.nullable else [badge("not null")]
    metadata = column.metadata
    if (generated := metadata.get(GENERATION_EXPRESSION)) is not None:
        told += [badge("generated"), code(truncate_text(generated))]
    if START in metadata or STEP in metadata or HIGH_WATER_MARK in metadata:
        told.append(badge("identity", title=f"start {metadata.get(START, 1)}, step {metadata.get(STEP, 1)}"))
    if (default := metadata.get(CURRENT_DEFAULT)) is not None:
        told += [badge("default"), code(truncate_text(default))]
    if (comment := metadata.get(COMMENT)) is not None:
        told.append(muted(truncate_text(comment)))
    marks = [part for mark in told for part in (mark, " ")]
    cut = kind if len(kind) <= _LONGEST_TYPE else None
    shown = code(kind) if cut is not None else element("code", shortened(kind, _LONGEST_TYPE), title=kind)
    return code(column.name), shown, marks


def _demands(snapshot: LogSnapshot) -> Child:
    """Return the requirements on clients and rows in a collapsed section: protocol, properties, constraints."""
    configuration, protocol = snapshot.configuration, snapshot.protocol
    features = sorted(configuration.supported_features)
    active = [name for name in features if configuration.is_active(name)]
    properties = {
        key: value
        for key, value in snapshot.metadata.configuration.items()
        if not key.lower().startswith(CONSTRAINT_PREFIX) and key not in (MANAGED_COMMIT_OWNER_CONF, CATALOG_OWNER_CONF)
    }
    rules = checks(snapshot.metadata.configuration)
    told = {
        "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
        "features": badges(
            badge(name, "accent" if name in active else None, "turned on" if name in active else "supported")
            for name in features
        )
        if features
        else None,
    }
    parts = [
        (counted(len(features), "feature"), len(features)),
        (counted(len(properties), "property", "properties"), len(properties)),
        (counted(len(rules), "constraint"), len(rules)),
    ]
    summary = " · ".join(words for words, count in parts if count) or "protocol"
    return disclosure(
        summary,
        pairs(told),
        table(["constraint", "must be true"], [(code(rule.name), code(truncate_text(rule.sql))) for rule in rules])
        if rules
        else None,
        settings(properties) if properties else None,
    )


def _commits(snapshot: LogSnapshot, most: int) -> Child:
    commits = _or_none(lambda: _last_commits(snapshot, most)) if most else None
    return disclosure("last commits", commit_table(commits), is_open=True) if commits else None


def _last_commits(snapshot: LogSnapshot, most: int) -> list[tuple[int, Child, Sequence[Mapping[str, Any]]]]:
    """Return the newest commits still in the log. Reads each commit once."""
    history = snapshot.history_up_to(most)
    found: list[tuple[int, Child, Sequence[Mapping[str, Any]]]] = []
    for version in sorted(history.versions, reverse=True)[:most]:
        actions = history.actions(version)
        stated = info_of(actions).get("inCommitTimestamp")
        at = to_moment(stated if isinstance(stated, int) else history.timestamp_ms(version))
        found.append((version, None if at is None else moment(at), actions))
    return found
