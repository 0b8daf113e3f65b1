"""The lakes of a transaction, and the state of each that it sees: where a table is, by its name.

Source: docs/transactions.md (one consistent state is read).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.lake.tables import LakeTables
from slackwater.log.table import Table
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import Cut, TableVersion

_NAMED = 10


@dataclass(frozen=True)
class TableAtVersion:
    """A table of a lake, and the version that is seen."""

    lake: LakeTables
    at: TableVersion

    @property
    def owned(self) -> OwnedTable:
        """The table and its owner."""
        return OwnedTable(self.lake.owner, self.at.table_id)

    @property
    def version(self) -> int | None:
        """The version."""
        return self.at.version

    def table(self) -> Table:
        """The table, as everybody sees it."""
        return self.lake.table_of(self.at)


class LakeReadView:
    """One consistent state of each of `lakes`, as of now."""

    def __init__(self, lakes: Sequence[LakeTables]) -> None:
        """Raises InvalidArgument where two of them are the same."""
        self._lakes = list(lakes)
        self.owners: dict[str, CommitOwner] = {lake.owner.owner_id: lake.owner for lake in lakes}
        """By their ids, that of the first lake first."""
        if len(self.owners) < len(self._lakes):
            raise InvalidArgument("two of the lakes of the transaction are the same one: name it once")
        self._cuts: list[Cut] = []
        self.refresh()

    def refresh(self) -> None:
        """See the newest state."""
        self._cuts = [lake.owner.cut() for lake in self._lakes]

    @property
    def begun_ms(self) -> int:
        """When that was, by the clock that is furthest on."""
        return max(cut.timestamp_ms for cut in self._cuts)

    @property
    def range(self) -> TimestampRange:
        """The timestamps of a transaction that begins now: it is not before then, and after all that it can read."""
        stamps = [table.timestamp_ms or 0 for cut in self._cuts for table in cut.tables]
        return TimestampRange(max(self.begun_ms - 1, *stamps, 0))

    def of(self, name: str) -> TableAtVersion:
        """The table called `name`. Raises TableNotFound, InvalidArgument where several lakes have one."""
        named = ((lake, cut.named(name)) for lake, cut in zip(self._lakes, self._cuts, strict=True))
        found = [TableAtVersion(lake, at) for lake, at in named if at is not None]
        if len(found) > 1:
            raise InvalidArgument(
                f"{len(found)} of the lakes of the transaction have a table named {name!r}, so the name does not say "
                "which is meant: adopt one of them under another name"
            )
        if not found:
            names = [table.name for cut in self._cuts for table in cut.tables]
            known = ", ".join(names[:_NAMED]) or "none"
            raise TableNotFound(
                f"there was no table named {name!r} when the transaction began: there were {known}; a table of another "
                "lake takes part where the transaction is begun with others=[…]"
            )
        return found[0]
