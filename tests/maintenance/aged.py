"""Tables on a disk whose files and commits are as old as a test says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.maintenance.vacuum import VacuumRequest, VacuumResult, vacuum
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddCDCFile
from slackwater.scan.snapshot import Snapshot
from tests.transaction import tables
from tests.transaction.tables import START_MS, FakeTime, add, begin, delete_rows, removes, table

HOUR_MS = 3_600_000


@dataclass
class AgedTable:
    """A table at `root`; hours are counted from its creation."""

    root: Path
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_by: Sequence[str] = ()
    columns: Mapping[str, Any] = field(default_factory=lambda: tables.ID)

    def __post_init__(self) -> None:
        self.time = FakeTime()
        table(self.columns, self.partition_by, self.properties, path=str(self.root), time=self.time)
        self._committed()

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot.load(str(self.root))

    def at(self, hours: float) -> AgedTable:
        """Go on at that time."""
        self.time.now_ms = START_MS + round(hours * HOUR_MS)
        return self

    def file(self, path: str) -> str:
        """A file that is written now, and nothing else."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x" * 100)
        self._touch(target)
        return path

    def append(self, *paths: str, partition: Mapping[str, str | None] | None = None) -> int:
        """A commit of files that are written now."""
        transaction = begin(self.snapshot, self.time)
        transaction.add([add(self.file(path), partition=partition) for path in paths])
        return self._landed(transaction.commit("WRITE").version)

    def remove(self, *paths: str, change_files: Iterable[str] = (), removed_at: float | None = None) -> int:
        """A commit that removes files; `removed_at` is what its writer says, where that is another time."""
        transaction = begin(self.snapshot, self.time)
        moment = self.time.now_ms if removed_at is None else START_MS + round(removed_at * HOUR_MS)
        for remove in removes(self.snapshot, *paths):
            object.__setattr__(remove, "deletion_timestamp", moment)
            transaction.remove(remove)
        transaction.add_change_files([AddCDCFile(self.file(path), {}, 100) for path in change_files])
        return self._landed(transaction.commit("DELETE").version)

    def delete_rows(self, path: str, *rows: int) -> int:
        """A commit that deletes rows of a file by a deletion vector."""
        transaction = begin(self.snapshot, self.time)
        delete_rows(transaction, {path: rows})
        for vector in transaction.vector_paths:
            self._touch(self.root / vector)
        return self._landed(transaction.commit("DELETE").version)

    def vacuum(self, retention_hours: float | None = None, **more: Any) -> VacuumResult:
        """A VACUUM at this time."""
        request = VacuumRequest(retention_hours, **more)
        result = vacuum(self.snapshot.table, request, self.time.clock())
        self._committed()
        return result

    def files(self) -> list[str]:
        """What is on the disk beside the log."""
        found = (str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())
        return sorted(path for path in found if not path.startswith("_delta_log"))

    def _landed(self, version: int) -> int:
        self._touch(self.root / commit_path(version))
        return version

    def _committed(self) -> None:
        """Commits that were made just now are of this time."""
        for path in (self.root / "_delta_log").glob("*.json"):
            if path.stat().st_mtime > (START_MS + 10_000 * HOUR_MS) / 1000:
                self._touch(path)

    def _touch(self, path: Path) -> None:
        os.utime(path, (self.time.now_ms / 1000,) * 2)
