"""Rows read by the conditions of a transaction, tracked across winning commits.

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
    """The rows found by a condition, on which the work depends.

    `rows` maps the path of a live file to physical indexes, or None for unrecorded rows. A file without an entry had no
    such rows. `matches(snapshot, files)` returns whether any live row of `files` satisfies the condition. `files` has
    ACTION_SCHEMA and was added by another transaction; `snapshot` is the version with these files. If `matches` is
    None, only statistics decide. The call runs within the commit attempt, so a slow call can lose the next attempt.
    """

    rows: Mapping[str, BitMap64 | None]
    matches: Callable[[Snapshot, pa.Table], bool] | None = None


@dataclass
class ConditionRead:
    """A condition read by the transaction, and the files with the rows found.

    `moved` contains files that may now hold some of the rows, because other commits rewrote the original files.
    """

    predicate: Predicate
    found: RowsRead | None = None
    moved: set[str] = field(default_factory=set)
    _planned: pa.Array | None = field(default=None, repr=False)
    _rows: dict[str, BitMap64 | None] | None = field(default=None, repr=False)

    @property
    def matches(self) -> Callable[[Snapshot, pa.Table], bool] | None:
        """The test of rows added by other writers, None if there is none."""
        return None if self.found is None else self.found.matches

    def files_among(self, paths: Iterable[str], snapshot: Snapshot, zone: str) -> list[str]:
        """Return the canonical `paths` of files that may contain rows read in `snapshot`, ascending."""
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
        """Return the rows read from a canonical path; None if the rows are not fully recorded."""
        return None if self.found is None or path in self.moved else self._rows_by_path.get(path, BitMap64())

    @property
    def _rows_by_path(self) -> Mapping[str, BitMap64 | None]:
        if self._rows is None:
            assert self.found is not None  # noqa: S101  (only what was found has rows)
            self._rows = {canonical_path(path): rows for path, rows in self.found.rows.items()}
        return self._rows
