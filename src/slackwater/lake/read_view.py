"""Read view of a transaction: one consistent version of every table in each of its lakes.

Source: docs/transactions.md (one consistent state is read).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.lake.tables import LakeTables
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import Cut, TableVersion
from slackwater.scan.snapshot import Snapshot

_NAMED = 10


@dataclass(frozen=True)
class TableAtVersion:
    """A table of a lake and its visible version."""

    lake: LakeTables
    at: TableVersion

    @property
    def owned(self) -> OwnedTable:
        """The table and its owner."""
        return OwnedTable(self.lake.owner, self.at.table_id)

    @property
    def version(self) -> int | None:
        """The visible version."""
        return self.at.version

    def snapshot(self, version: int | None) -> Snapshot:
        """Return `version` of the committed table, the newest version for None.

        With a known configuration, the log of the visible version is read only if needed.
        """
        unread = self.lake._recent.unread(self._key, self.at) if version == self.at.version else None
        return unread or self.lake._snapshot_of(self.at, version, self._key)

    def keep(self, snapshot: Snapshot | None) -> None:
        """Keep `snapshot`, the version committed by the transaction if known, so that the next one reads no log.

        Raises nothing, because the transaction has committed.
        """
        if snapshot is not None:
            self.lake._recent.keep(self._key, snapshot)

    @cached_property
    def _key(self) -> Hashable:
        return self.lake._key_of(self.at)


class LakeReadView:
    """A consistent, current state of each of `lakes`."""

    def __init__(self, lakes: Sequence[LakeTables]) -> None:
        """Raises InvalidArgument if `lakes` contains a lake twice, or anything but lakes."""
        wrong = next((each for each in lakes if not isinstance(each, LakeTables)), None)
        if wrong is not None:
            raise InvalidArgument(f"others is a list of open lakes, found {wrong!r} in it. Pass others=[lake]")
        self._lakes = list(lakes)
        self.owners: dict[str, CommitOwner] = {lake.owner.owner_id: lake.owner for lake in lakes}
        """The owners by id, starting with the owner of the first lake."""
        if len(self.owners) < len(self._lakes):
            raise InvalidArgument("two lakes of the transaction are the same. Name each lake once")
        self._cuts: list[Cut] = []
        self._found: dict[str, TableAtVersion] = {}
        self.refresh()

    def refresh(self) -> None:
        """Move the view to the newest state."""
        self._cuts = [lake.owner.cut() for lake in self._lakes]
        self._found = {}

    @property
    def begun_ms(self) -> int:
        """Time of the view, by the most advanced of the owners' clocks."""
        return max(cut.timestamp_ms for cut in self._cuts)

    @property
    def range(self) -> TimestampRange:
        """The timestamp range of a new transaction: not before the view, and after every readable version."""
        stamps = [table.timestamp_ms or 0 for cut in self._cuts for table in cut.tables]
        return TimestampRange(max(self.begun_ms - 1, *stamps, 0))

    def of(self, name: str) -> TableAtVersion:
        """Return the table `name`. Raises TableNotFound, InvalidArgument if several lakes have this name."""
        if name not in self._found:
            self._found[name] = self._named(name)
        return self._found[name]

    def _named(self, name: str) -> TableAtVersion:
        named = ((lake, cut.named(name)) for lake, cut in zip(self._lakes, self._cuts, strict=True))
        found = [TableAtVersion(lake, at) for lake, at in named if at is not None]
        if len(found) > 1:
            raise InvalidArgument(
                f"{len(found)} lakes of the transaction have a table named {name!r}. Adopt one of these tables "
                "under another name"
            )
        if not found:
            names = [table.name for cut in self._cuts for table in cut.tables]
            known = ", ".join(names[:_NAMED]) or "none"
            raise TableNotFound(
                f"no table named {name!r} existed when the transaction began. Existing tables: {known}. For a "
                "table of another lake, begin the transaction with others=[…]"
            )
        return found[0]
