"""The report of a commit: one INFO line on the logger `slackwater`, counters, and attributes of the span.

Source: docs/guides/observe.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow.compute as pc

from slackwater.html.number_format import iso, visible
from slackwater.html.redaction import without_secrets
from slackwater.log.files.bulk_commit import BulkActions, LargeActionSequence, StreamedActions
from slackwater.log.files.commit_changes import CommitChanges, commit_changes
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.protocol.actions.commit_info import info_of
from slackwater.transaction.observability.commit_metrics import count_commit

COMMITS = logging.getLogger("slackwater")
"""The logger of commits, the parent of all loggers of the package."""

# Statistics of more files are not parsed, because this would take a noticeable part of the commit.
_MOST_ACTIONS = 10_000
_COUNTED = (
    "rows_added",
    "rows_updated",
    "rows_removed",
    "files_added",
    "files_removed",
    "bytes_added",
    "bytes_removed",
)


@dataclass(frozen=True, slots=True)
class CommitReport:
    """A successful commit. Numbers that neither metrics nor actions give are None.

    `table` is the location. `milliseconds` is the time since the begin of the work. `timestamp` is the commit time.
    `transaction` is the id of a transaction over several tables.
    """

    table: str
    version: int
    operation: str
    rows_added: int | None
    rows_updated: int | None
    rows_removed: int | None
    files_added: int
    files_removed: int
    bytes_added: int | None
    bytes_removed: int | None
    milliseconds: int
    attempts: int
    timestamp: str
    transaction: str | None = None

    @property
    def line(self) -> str:
        """The line in the log: pairs of key and value, without unknown values."""
        pairs = {key: value for key, value in asdict(self).items() if value is not None}
        return f"commit {' '.join(f'{key}={_text(value)}' for key, value in pairs.items())}"


def report_commit(
    table: str,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    begun_ms: int,
    now_ms: int,
    timestamp_ms: int,
    attempts: int,
    transaction: str | None = None,
) -> CommitReport | None:
    """Log and count a commit, once. Return the report. Never raises: the commit is valid, so None for an error.

    `table` is the location of the table. Times are in milliseconds since the epoch.
    """
    try:
        report = _report(table, version, actions, now_ms - begun_ms, timestamp_ms, attempts, transaction)
        count_commit(report.milliseconds, {name: getattr(report, name) for name in _COUNTED})
        if COMMITS.isEnabledFor(logging.INFO):
            COMMITS.info("%s", report.line, extra={"slackwater": asdict(report)})
    except Exception as error:  # noqa: BLE001  (the commit is valid regardless of its report)
        COMMITS.warning("%s: version %d is committed, but not counted: %s", table, version, error)
        return None
    return report


def _report(
    table: str,
    version: int,
    actions: Sequence[Mapping[str, Any]],
    milliseconds: int,
    timestamp_ms: int,
    attempts: int,
    transaction: str | None,
) -> CommitReport:
    changes = _changes(actions)
    return CommitReport(
        without_secrets(table),
        version,
        str(info_of(actions).get("operation") or "unknown"),
        changes.rows_added,
        changes.rows_updated,
        changes.rows_removed,
        changes.files_added,
        changes.files_removed,
        changes.bytes_added,
        changes.bytes_removed,
        max(0, milliseconds),
        attempts,
        iso(at_ms(timestamp_ms)),
        transaction,
    )


def _changes(actions: Sequence[Mapping[str, Any]]) -> CommitChanges:
    """Return the changes of a commit. Actions of very many files are not parsed, so their rows are unknown."""
    if isinstance(actions, StreamedActions):
        return CommitChanges(bytes_added=actions.num_bytes, files_added=actions.num_files)
    if isinstance(actions, BulkActions):
        return CommitChanges(
            bytes_added=pc.sum(actions.adds["size"], min_count=0).as_py(),
            bytes_removed=pc.sum(actions.removes["size"], min_count=0).as_py(),
            files_added=actions.adds.num_rows,
            files_removed=actions.removes.num_rows,
        )
    if isinstance(actions, LargeActionSequence):
        return CommitChanges()
    return commit_changes(actions) if len(actions) <= _MOST_ACTIONS else _totals(actions)


def _totals(actions: Sequence[Mapping[str, Any]]) -> CommitChanges:
    """Return the numbers of files and bytes, and rows by metrics only."""
    added = [action["add"]["size"] for action in actions if "add" in action]
    removed = [action["remove"].get("size") or 0 for action in actions if "remove" in action]
    # One file without statistics for each kind of action, because rows by metrics depend on the kinds.
    kinds = [("add", added), ("remove", removed)]
    brief = [{kind: {"path": kind, "size": 0}} for kind, sizes in kinds if sizes]
    return replace(
        commit_changes([{"commitInfo": info_of(actions)}, *brief]),
        bytes_added=sum(added),
        bytes_removed=sum(removed),
        files_added=len(added),
        files_removed=len(removed),
    )


def _text(value: object) -> str:
    text = visible(str(value))
    return f'"{text}"' if " " in text else text
