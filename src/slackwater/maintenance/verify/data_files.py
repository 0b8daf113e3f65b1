"""Verifies the files of a version: existence, sizes and deletion vectors.

Source: delta-protocol.md "Data Files", "Deletion Vector Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from slackwater.errors import PathNotAllowed, SlackwaterError
from slackwater.log.table import Table
from slackwater.maintenance.verify.findings import FaultKind, Findings
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor
from slackwater.protocol.actions.paths import is_absolute
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.stats.file_stats import record_counts
from slackwater.storage.existence import sizes_of
from slackwater.storage.path_guard import named_place, named_vector_place

COLUMNS = ("path", "size", "deletionVector", "stats")
"""The columns of ADD_SCHEMA required by the checks."""


def data_places(table: Table, files: pa.Table, findings: Findings) -> list[str | None]:
    """Return the location of each of `files`; None if the file must not be opened or its path is invalid.

    Adds faults and notes to `findings`.
    """
    places: list[str | None] = []
    outside = 0
    for path in files["path"].to_pylist():
        try:
            place: str | None = named_place(table.store, path)
        except PathNotAllowed as error:
            findings.fault(FaultKind.DATA_FILE, path, str(error))
            place = None
        if place is not None and is_absolute(place) and not table.follows_outside:
            place, outside = None, outside + 1
        places.append(place)
    if outside:
        findings.notes.append(
            f"{outside} of the files are outside of the table's directory, and were not checked. Allow that for a "
            "table that you trust"
        )
    return places


def verify_data_files(table: Table, files: pa.Table, places: Sequence[str | None], findings: Findings) -> list[bool]:
    """Return whether each of `files` exists. Adds a fault for a missing file or a size other than in the log."""
    known = [place for place in places if place is not None]
    found = dict(zip(known, sizes_of(table.store, known), strict=True))
    findings.looked("data files", len(known))
    are_there = []
    for path, said, place in zip(files["path"].to_pylist(), files["size"].to_pylist(), places, strict=True):
        size = None if place is None else found[place]
        are_there.append(size is not None)
        if place is None:
            continue
        if size is None:
            findings.fault(FaultKind.DATA_FILE, path, "it does not exist: it was vacuumed, or deleted by hand")
        elif said is not None and size != said:
            findings.fault(FaultKind.DATA_FILE, path, f"it has {size} bytes, but the log records {said}")
    return are_there


def verify_deletion_vectors(table: Table, files: pa.Table, findings: Findings) -> None:
    """Verify the deletion vectors of `files`: magic number, checksum, cardinality and row indexes within the file."""
    marked = files.append_column("numRecords", record_counts(files)).filter(files["deletionVector"].is_valid())
    here = [_may_be_opened(table, node) for node in marked["deletionVector"].to_pylist()]
    marked = marked.filter(pa.array(here, pa.bool_()))
    paths, nodes, counts = (marked[name].to_pylist() for name in ("path", "deletionVector", "numRecords"))
    findings.looked("deletion vectors", len(nodes))
    for path, rows, bitmap in zip(paths, counts, _bitmaps(table, nodes, paths, findings), strict=True):
        if bitmap and rows is not None and bitmap.max() >= rows:
            says = f"its vector names row {bitmap.max()} (from 0), but the file has {rows} rows"
            findings.fault(FaultKind.VECTOR, path, says)


def _may_be_opened(table: Table, node: Mapping[str, Any]) -> bool:
    """Return whether a vector is in the table's directory, or the table follows outside files."""
    if table.follows_outside:
        return True
    try:
        vector = DeletionVectorDescriptor.from_json(node)
        return vector.storage_type == INLINE or not is_absolute(named_vector_place(table.store, vector))
    except SlackwaterError:
        # Loading the vector reports the error.
        return True


def _bitmaps(
    table: Table, nodes: Sequence[Mapping[str, Any]], paths: Sequence[str], findings: Findings
) -> Iterator[BitMap64 | None]:
    try:
        yield from load_deletion_vectors(table.store, nodes, table.follows_outside)
    except SlackwaterError:
        # Reading the vectors together is faster. After an error, read them one by one to find the faulty vectors.
        for path, node in zip(paths, nodes, strict=True):
            try:
                (bitmap,) = load_deletion_vectors(table.store, [node], table.follows_outside)
            except SlackwaterError as error:
                findings.fault(FaultKind.VECTOR, path, f"its vector cannot be used: {error}")
                yield None
            else:
                yield bitmap
