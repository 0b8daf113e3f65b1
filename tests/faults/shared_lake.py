"""A lake that many processes share, and tables in it whose content is known."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.lake.lake import LogLake
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.state.clock import OwnerClock
from slackwater.scan.snapshot import Snapshot
from tests.faults.dying_owner import SCHEMA, append, kill_while, opened
from tests.transaction.tables import table

MOST_WAITS = 20
"""After so few waits of a commit the dead are not waited for any more."""

_names = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where a lake and its owner's database are."""

    root: Path
    database: str

    def path(self, name: str) -> Path:
        """Where a table is."""
        return self.root / name

    def opened(self, later_ms: int = 0, **settings: Any) -> LogLake:
        """The lake; its clock stands still, so that nobody's lease ends by waiting."""
        now_ms = OwnerClock().now_ms() + later_ms
        return opened(self.root, self.database, **{"clock": OwnerClock(now_ms=lambda: now_ms), **settings})

    def after_grace(self) -> LogLake:
        """The lake when files without a record have lain there for long enough."""
        return opened(self.root, self.database, later_ms=2 * GRACE_MS)

    def kill_while(self, operation: str, point: str, name: str, **settings: Any) -> None:
        """A process that dies at `point`."""
        kill_while(operation, point, self.root, self.database, name, **settings)

    def managed(self, published: int, ratified: int, **properties: str) -> tuple[str, list[str]]:
        """A new table with so many commits that are backfilled, then so many that are not; what each of them added."""
        name, files = self.new_name(), []
        with self.opened() as lake:
            lake._create_log(name, SCHEMA, properties=properties)
            for number in range(1, published + ratified + 1):
                assert append(lake.snapshot(name), f"a{number}").version == number
                files.append(f"a{number}")
                if number == published:
                    lake.backfill(name)
        return name, files

    def of_the_file_system(self) -> tuple[str, list[str]]:
        """A new table without an owner, below the lake's root; what each of its commits added."""
        name = self.new_name()
        snapshot = table(path=self.path(name))
        files = ["f1", "f2"]
        for file in files:
            snapshot = append(snapshot, file).snapshot
        return name, files

    def alone(self, name: str) -> list[str]:
        """What everybody finds in the table who does not ask its owner."""
        return sorted(Snapshot.load(self.path(name)).live_files(["path"])["path"].to_pylist())

    def staged(self, name: str) -> set[str]:
        """The names of the staged commits."""
        return {path.name for path in (self.path(name) / "_delta_log/_commits").iterdir() if path.name[0] == "0"}

    @staticmethod
    def new_name() -> str:
        return f"t{next(_names)}"
