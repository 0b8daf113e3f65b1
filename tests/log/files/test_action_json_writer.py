"""File actions in bulk are the lines that single ones are."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.log.files.action_json_writer import add_lines, remove_lines
from slackwater.log.files.bulk_commit import BulkActions, commit_data
from slackwater.log.files.file_actions import ACTION_SCHEMA, file_actions
from slackwater.protocol.actions.actions import parse_actions
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.files import AddFile, RemoveFile
from tests.examples import examples

LONGS = st.integers(-(2**63), 2**63 - 1)
# Quotes, backslashes, controls, what JSON may escape and need not, and signs of several bytes.
TEXTS = st.text(st.sampled_from('ab/%:=. "\\\n\t\x00\x1f\x7fü€\u2028😀'), max_size=12) | st.text(max_size=8)
PATHS = TEXTS.filter(bool)
VALUES = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
TAGS = st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2)
VECTORS = st.none() | st.builds(
    DeletionVectorDescriptor,
    st.sampled_from(["u", "p"]),
    TEXTS,
    st.none() | st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**40),
)
ADDS = st.builds(
    AddFile, PATHS, VALUES, LONGS, LONGS, st.booleans(), st.none() | TEXTS, TAGS, VECTORS, st.none() | LONGS,
    st.none() | LONGS, st.none() | TEXTS,
)  # fmt: skip
REMOVES = st.builds(
    RemoveFile, PATHS, LONGS, st.booleans(), st.none() | VALUES, st.none() | LONGS, st.none() | TEXTS, TAGS, VECTORS,
    st.none() | LONGS, st.none() | LONGS,
)  # fmt: skip


def table(files: list[AddFile] | list[RemoveFile]) -> pa.Table:
    return file_actions([(0, "here", [file.to_json() for file in files])])


def one_by_one(files: list[AddFile] | list[RemoveFile]) -> bytes:
    return b"".join(orjson.dumps(file.to_json()) + b"\n" for file in files)


@settings(max_examples=examples(300))
@given(st.lists(ADDS, max_size=5), st.integers(0, 4))
def test_adds_in_bulk_are_the_lines_of_single_ones(files: list[AddFile], first: int) -> None:
    assert b"".join(add_lines(table(files))) == one_by_one(files)
    # Arrow's slices are of the same buffers.
    assert b"".join(add_lines(table(files).slice(first))) == one_by_one(files[first:])


@settings(max_examples=examples(300))
@given(st.lists(REMOVES, max_size=5), st.integers(0, 4))
def test_removes_in_bulk_are_the_lines_of_single_ones(files: list[RemoveFile], first: int) -> None:
    assert b"".join(remove_lines(table(files))) == one_by_one(files)
    assert b"".join(remove_lines(table(files).slice(first))) == one_by_one(files[first:])


def test_many_files_are_in_their_order() -> None:
    files = [AddFile(f"part {number}", {"p": str(number % 3)}, number, 0, stats="{}") for number in range(20_000)]
    assert b"".join(add_lines(table(files))) == one_by_one(files)


@pytest.fixture
def actions() -> BulkActions:
    content = [name for name in ACTION_SCHEMA.names if name != "version"]
    removes, adds = [RemoveFile("a", 1, partition_values={})], [AddFile("b", {}, 2, 3), AddFile("c", {}, 4, 5)]
    return BulkActions(
        [{"commitInfo": {"names": ("x", "y")}}], table(removes).select(content), table(adds).select(content)
    )


def test_actions_of_a_bulk_are_those_of_its_bytes(actions: BulkActions) -> None:
    read = parse_actions(actions.data(), "here")
    assert bytes(commit_data(actions)) == actions.data() == commit_data(read)
    assert len(actions.pieces()) == len(actions.data())
    assert [*actions.read_back()] == read
    assert (len(actions), actions[-1], actions[1:3]) == (4, read[-1], read[1:3])
    assert actions.files["path"].to_pylist() == ["a", "b", "c"]
    assert file_actions([(7, "here", actions)]).equals(file_actions([(7, "here", read)]))
