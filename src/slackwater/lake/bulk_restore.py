"""Restore of all tables of a lake to one instant, in one transaction.

Source: paper §1 (timeslice); docs/guides/maintenance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.lake.time_slice import LogTimeSlice
from slackwater.lake.transaction import LogTransaction
from slackwater.log.history import format_ms, to_ms
from slackwater.maintenance.clone import CloneResult
from slackwater.maintenance.restore import RestoreResult, restore


@dataclass(frozen=True, slots=True)
class TableRestored:
    """A restored table: its name, the restored version and the result."""

    name: str
    version: int
    result: RestoreResult


@dataclass(frozen=True, slots=True)
class TableCloned:
    """A cloned table: its name, the source version and the result."""

    name: str
    version: int
    result: CloneResult


def restore_tables(
    transaction: LogTransaction,
    past: LogTimeSlice,
    names: Sequence[str] | None = None,
    ignore_missing_files: bool = False,
    user_metadata: str | None = None,
    user_name: str | None = None,
) -> list[TableRestored]:
    """Restore the tables `names`, or all tables of `past`, to the state in `past`, within `transaction`.

    Newer tables stay unchanged. Raises TableNotFound if a table did not exist in `past`, InvalidArgument if `names` has
    duplicates, and as `slackwater.maintenance.restore.restore`.
    """
    wanted = past.tables() if names is None else list(names)
    if len(set(wanted)) < len(wanted):
        raise InvalidArgument(f"each table can be restored once, found {wanted}")
    versions = {name: past.version(name) for name in wanted}
    said = format_ms(to_ms(past.timestamp))
    return [
        TableRestored(
            name,
            version,
            restore(
                transaction.writing(name).table,
                version,
                ignore_missing_files=ignore_missing_files,
                user_metadata=user_metadata,
                user_name=user_name,
                said=said,
            ),
        )
        for name, version in versions.items()
    ]
