"""The rows of every golden table without Spark."""

from __future__ import annotations

import pytest

from slackwater import Snapshot

from .golden import EXPECTATIONS, ExpectedContent, GoldenTable, each, expected_contents, is_readable, table_hash, tables

_OTHER_CONTENT = EXPECTATIONS["expected_contents_unlike_the_truth"]


@pytest.mark.parametrize("table", each(t for t in tables() if is_readable(t)))
def test_rows_are_those_of_the_index(table: GoldenTable) -> None:
    snapshot = Snapshot.load(table.root)
    rows = snapshot.to_arrow()
    rows.validate(full=True)
    table.require_content(table_hash()(rows))
    assert rows.column_names == list(snapshot.schema.names)


@pytest.mark.parametrize("content", each(c for c in expected_contents() if c.version is not None))
def test_rows_of_a_version_are_what_upstream_says(content: ExpectedContent) -> None:
    expected = table_hash()(content.rows())
    ours = table_hash()(Snapshot.load(content.table.root, content.version).to_arrow())
    assert (ours["hash"] == expected["hash"]) == (content.table.id not in _OTHER_CONTENT)
