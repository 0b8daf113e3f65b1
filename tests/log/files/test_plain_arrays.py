"""Arrays from buffers: equal to those of `pyarrow.array`, and None for values left to it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.log.files.file_actions import ACTION_SCHEMA, DELETION_VECTOR, STRING_MAP
from slackwater.log.files.plain_arrays import flag_array, flags_of, is_valid, plain_array, row_array
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.log_maintenance import checkpoint
from tests.examples import examples
from tests.transaction.tables import START_MS, add, append, delete, table

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31) + 1, 2**31 - 1),
    pa.int64(): st.integers(-(2**63) + 1, 2**63 - 1),
    STRING_MAP: st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
    DELETION_VECTOR: st.fixed_dictionaries(
        {},
        optional={
            "storageType": TEXT,
            "pathOrInlineDv": st.none() | TEXT,
            "offset": st.none() | st.integers(0, 99),
            "cardinality": st.integers(0, 2**40),
            "unknown": st.integers(),
        },
    ),
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_an_array_equals_that_of_pyarrow(data_type: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[data_type], max_size=20))
    found = plain_array(values, data_type)
    expected = [None if v is None else list(v.items()) for v in values] if data_type == STRING_MAP else values
    assert found == pa.array(expected, data_type)
    assert found is not None
    found.validate(full=True)


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (1, pa.string()),
        (True, pa.int64()),
        (1.0, pa.int64()),
        (2**63, pa.int64()),
        (2**31, pa.int32()),
        (1, pa.bool_()),
        ([("a", "b")], STRING_MAP),
        ({"a": 1}, STRING_MAP),
        ({"offset": "1"}, DELETION_VECTOR),
        ("x", DELETION_VECTOR),
        (b"x", pa.binary()),
        ({"a": 1}, pa.binary()),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_left_to_pyarrow(value: Any, data_type: pa.DataType) -> None:
    assert plain_array([None, value], data_type) is None


def test_all_columns_of_actions_are_supported() -> None:
    assert [plain_array([None], field.type) == pa.nulls(1, field.type) for field in ACTION_SCHEMA] == [True] * len(
        ACTION_SCHEMA
    )


@settings(max_examples=examples(60), deadline=None)
@given(flags=st.lists(st.booleans(), max_size=40), start=st.integers(0, 9), cut=st.integers(0, 40))
def test_flags_and_row_numbers_pass_between_arrow_and_numpy(flags: list[bool], start: int, cut: int) -> None:
    expected = flags[start:]
    array = pa.array(flags, pa.bool_()).slice(start)
    assert flags_of(array).tolist() == expected
    assert flags_of(pa.chunked_array([array.slice(0, cut), array.slice(cut)])).tolist() == expected
    assert flag_array(np.array(expected, bool)).to_pylist() == expected
    assert is_valid(pa.array([flag or None for flag in flags], pa.bool_()).slice(start)).tolist() == expected
    assert is_valid(pa.array([1] * len(flags)).slice(start)).tolist() == [True] * len(expected)
    rows = np.flatnonzero(np.array(expected, bool))
    assert row_array(rows) == pa.array(rows)
    # Also if numpy has the values in other places.
    assert row_array(rows[::2]).to_pylist() == rows[::2].tolist()
    assert flag_array(np.array(expected, bool)[::2]).to_pylist() == expected[::2]


_READ = """
import sys
from slackwater import Snapshot
files = Snapshot.load(sys.argv[1]).files(columns=["path", "size"])
print(sorted(files["path"].to_pylist()), sys.modules.keys() & {"pandas", "pyarrow.compute"})
"""


def test_a_small_table_with_a_checkpoint_is_opened_without_large_imports(tmp_path: Path) -> None:
    assert find_spec("pandas") is not None
    snapshot = table(properties={"delta.checkpointInterval": "2"}, path=tmp_path / "t")
    snapshot = append(snapshot, add("a"), add("b"), add("c")).snapshot
    snapshot = append(snapshot, add("d")).snapshot
    checkpoint(snapshot, START_MS)
    delete(Snapshot.load(tmp_path / "t"), "b")
    command = [sys.executable, "-c", _READ, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "['a', 'c', 'd'] set()\n"
