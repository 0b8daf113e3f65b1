"""Reading rows without Spark against deltalake: all of them, and few columns of few rows.

Both sides give a table of Arrow; deltalake's are `to_pyarrow_table`, and for few rows its dataset with a filter.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale, once
from slackwater import Snapshot

_NUMBERS, _FLOATS = 8, 6
_CARRIERS = ("AA", "BA", "DL", "KL", "LH", "UA", "WN")
_START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def full_scan(data: Path, scale: Scale) -> list[Row]:
    """All rows and columns."""
    place = str(_table(data, scale))
    sides = {
        "ours": partial(_measured, lambda: Snapshot.load(place).to_arrow()),
        "deltalake": partial(_measured, lambda: deltalake.DeltaTable(place).to_pyarrow_table()),
    }
    work = f"all of {scale.rows:,} rows of 20 columns, {scale.files} files"
    return [_row("rows-full", work, "deltalake's to_pyarrow_table", sides, scale, 1.0)]


def selective_scan(data: Path, scale: Scale) -> list[Row]:
    """Two columns of a thousandth of the rows, by the column that the rows are in order of."""
    place = str(_table(data, scale))
    low = scale.rows // 3
    high = low + scale.rows // 1000
    columns = ["n0", "carrier"]
    chosen = (ds.field("id") >= low) & (ds.field("id") < high)
    against = {
        "deltalake's to_pyarrow_dataset, filter": lambda: (
            deltalake.DeltaTable(place).to_pyarrow_dataset().to_table(columns=columns, filter=chosen)
        ),
        "deltalake's to_pyarrow_table, filters": lambda: deltalake.DeltaTable(place).to_pyarrow_table(
            columns=columns, filters=chosen
        ),
    }
    rows = []
    for name, rival in against.items():
        sides = {
            "ours": partial(
                _measured, lambda: Snapshot.load(place).to_arrow(columns, where=f"id >= {low} AND id < {high}")
            ),
            name: partial(_measured, rival),
        }
        work = f"two columns of {high - low:,} of {scale.rows:,} rows"
        rows.append(_row("rows-selective", work, name, sides, scale, 0.5))
    return rows


ROW_CASES = {"rows-full": full_scan, "rows-selective": selective_scan}
"""The cases, by name."""


def _measured(read: Callable[[], pa.Table]) -> tuple[float, tuple[int, int]]:
    seconds, rows = timed(read)
    return seconds, (rows.num_rows, rows.num_columns)


def _row(
    case: str, work: str, against: str, sides: Mapping[str, Callable[[], tuple[float, tuple[int, int]]]], scale: Scale,
    mark: float,
) -> Row:  # fmt: skip
    found = interleaved(sides, scale.spark_repetitions // 2 + 1, 1)
    answers = tuple(agree(*(answer for _, answer in side)) for side in found.values())
    agree(*answers)
    ours, rival = (middle([seconds for seconds, _ in side]) for side in found.values())
    return Row(case, work, against, ours, rival, mark, answers=answers)


def _table(data: Path, scale: Scale) -> Path:
    return once(data / "rows", partial(_write, scale=scale))


def _write(place: Path, scale: Scale) -> None:
    """Files of rows in order of `id`, as deltalake writes them: row groups as its writer makes them."""
    each = scale.rows // scale.files
    for at in range(scale.files):
        deltalake.write_deltalake(place, _rows(at * each, each), mode="append")


def _rows(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    columns: dict[str, pa.Array] = {"id": pa.array(ids)}
    columns |= {f"n{at}": pa.array(random.integers(0, 10 ** (at + 1), count)) for at in range(_NUMBERS)}
    columns |= {f"x{at}": pa.array(random.random(count)) for at in range(_FLOATS)}
    columns["carrier"] = pa.array(np.array(_CARRIERS)[random.integers(0, len(_CARRIERS), count)])
    columns["name"] = pa.array(random.integers(0, 10**9, count)).cast(pa.string())
    columns["flag"] = pa.array(random.random(count) < 0.5)
    days = (ids // 100_000).astype("datetime64[D]")
    columns["day"] = pa.array(days, pa.date32())
    micros = int(_START.timestamp()) * 1_000_000 + ids * 1000
    columns["at"] = pa.array(micros).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns)
