"""What the conditions of a transaction found in the table, and where those rows are as others move on.

Source: docs/concurrent-changes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.scan.snapshot import Snapshot


@dataclass(frozen=True)
class RowsRead:
    """The rows that a condition found, which the work depends on.

    `rows` by path of a live file: physical indexes, or None for some rows that are not recorded; a file that is not
    there had none. `matches(snapshot, files)` answers whether any live row of `files` (ACTION_SCHEMA, added by another
    transaction; `snapshot` is the version that has them) fulfils the condition; where it is None, statistics alone
    decide. It is called while the commit is tried, so an answer that takes long makes the commit lose again.
    """

    rows: Mapping[str, BitMap64 | None]
    matches: Callable[[Snapshot, pa.Table], bool] | None = None


@dataclass
class ConditionRead:
    """One condition that was read by, and the files that hold the rows it found.

    Files whose rows others moved elsewhere are followed: `moved` are files that may hold some of them now.
    """

    predicate: Predicate
    found: RowsRead | None = None
    moved: set[str] = field(default_factory=set)
    _planned: pa.Array | None = field(default=None, repr=False)
    _rows: dict[str, BitMap64 | None] | None = field(default=None, repr=False)

    @property
    def matches(self) -> Callable[[Snapshot, pa.Table], bool] | None:
        """The test of rows that others added, where there is one."""
        return None if self.found is None else self.found.matches

    def files_among(self, paths: Iterable[str], snapshot: Snapshot, zone: str) -> list[str]:
        """Those of the canonical `paths` that hold, or may hold, rows that were read in `snapshot`; ascending."""
        wanted = sorted(paths)
        if self.found is not None:
            rows = self._rows_by_path
            return [path for path in wanted if path in rows or path in self.moved]
        if self._planned is None:
            planned = canonical_paths(snapshot.plan(self.predicate, ["path"], zone).files["path"])
            self._planned = planned.combine_chunks() if isinstance(planned, pa.ChunkedArray) else planned
        held = set(self._planned.filter(pc.is_in(self._planned, value_set=pa.array(wanted, pa.string()))).to_pylist())
        return [path for path in wanted if path in held or path in self.moved]

    def rows_of(self, path: str) -> BitMap64 | None:
        """The rows that were read of a canonical path; None where only some were, or it is not known which."""
        return None if self.found is None or path in self.moved else self._rows_by_path.get(path, BitMap64())

    @property
    def _rows_by_path(self) -> Mapping[str, BitMap64 | None]:
        if self._rows is None:
            assert self.found is not None  # noqa: S101  (only what was found has rows)
            self._rows = {canonical_path(path): rows for path, rows in self.found.rows.items()}
        return self._rows
