"""What others do to a table while a query reads or writes it: rearrange its files, delete from it, merge into it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from slackwater.protocol.actions.files import AddCDCFile
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.rows.file_action_rows import as_removes
from tests.faults.model_query import put_file


@dataclass(frozen=True)
class Change:
    """A transaction that is about some live `files` of its table, a few of them, and at least one."""

    transaction: TableTransaction
    files: pa.Table
    chance: random.Random

    def rearrange(self) -> None:
        """All rows in one file, as OPTIMIZE has them."""
        self._replace(self._live(), data_change=False)

    def delete_files(self) -> None:
        """No row is left."""
        self.transaction.remove(as_removes(self.files, 0))

    def delete_rows(self) -> None:
        """A row of each file goes, by deletion vectors."""
        self._delete_some()

    def merge_by_vectors(self) -> None:
        """A row of each file goes, and comes again with another value."""
        self._add(_updated(self._delete_some()))

    def merge_by_change_files(self) -> None:
        """The files are written anew, with other values in some rows, which change files tell of."""
        rows = self._live()
        start = self.chance.randrange(rows.num_rows)
        rest, old = pa.concat_tables([rows.slice(0, start), rows.slice(start + 2)]), rows.slice(start, 2)
        new = _updated(old)
        self._replace(pa.concat_tables([rest, new]))
        told = pa.concat_tables([_saying("update_preimage", old), _saying("update_postimage", new)])
        file = put_file(self.transaction.store, told, "_change_data/cdc")
        self.transaction.add_change_files([AddCDCFile(file.path, {}, file.size)])

    def _replace(self, rows: pa.Table, data_change: bool = True) -> None:
        self.transaction.remove(as_removes(self.files, 0, data_change))
        self._add(rows, data_change)

    def _add(self, rows: pa.Table, data_change: bool = True) -> None:
        self.transaction.add(put_file(self.transaction.store, rows, data_change=data_change), fresh=True)

    def _live(self) -> pa.Table:
        return pa.concat_tables([rows.take(live) for _, rows, live in self._read()])

    def _delete_some(self) -> pa.Table:
        """Delete a row of each file; these rows."""
        chosen = {path: (rows, self.chance.choice(live)) for path, rows, live in self._read()}
        self.transaction.delete_rows(self.files, {path: BitMap64([row]) for path, (_, row) in chosen.items()})
        return pa.concat_tables([rows.take([row]) for rows, row in chosen.values()])

    def _read(self) -> list[tuple[str, pa.Table, list[int]]]:
        """Of each file its path, all of its rows, and which of these are not deleted, of which there is one."""
        store, found = self.transaction.store, []
        for file in self.files.to_pylist():
            rows = pq.read_table(pa.BufferReader(store.read(file["path"])))
            vector = file["deletionVector"]
            gone = load_deletion_vectors(store, [vector])[0] if vector else BitMap64()
            found.append((file["path"], rows, [row for row in range(rows.num_rows) if row not in gone]))
        return found


DONE_TO_A_SOURCE: dict[str, Callable[[Change], None]] = {
    "OPTIMIZE": Change.rearrange,
    "TRUNCATE": Change.delete_files,
    "DELETE": Change.delete_rows,
    "MERGE": Change.merge_by_vectors,
    "UPDATE": Change.merge_by_change_files,
}
"""By the names that the history has for them."""


def change(snapshot: Snapshot, operation: str, chance: random.Random) -> None:
    """Do one of DONE_TO_A_SOURCE to a few files of the table, if it has any. Raises as commits do."""
    files = snapshot.live_files()
    most = 1 if operation == "TRUNCATE" else 4
    chosen = chance.sample(range(files.num_rows), min(files.num_rows, chance.randint(1, most)))
    if chosen:
        transaction = begin(snapshot)
        DONE_TO_A_SOURCE[operation](Change(transaction, files.take(sorted(chosen)), chance))
        transaction.commit(operation)


def _updated(rows: pa.Table) -> pa.Table:
    """The rows with the next value."""
    values = [value + 1 for value in rows["v"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("v"), rows.schema.field("v"), pa.array(values, pa.int64()))


def _saying(kind: str, rows: pa.Table) -> pa.Table:
    """The rows as those of a change file."""
    return rows.append_column("_change_type", pa.array([kind] * rows.num_rows, pa.string()))
