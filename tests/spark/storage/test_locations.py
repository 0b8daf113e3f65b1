"""How Spark names a table's files: many at once as each by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.protocol.actions.paths import are_plain
from slackwater.spark.storage.locations import DataLocations

ROOTS = ["/data/t", "/dätä/a b/{t}*", "s3://bucket/t", "s3://bucket/a%20b"]
PLAIN = st.lists(st.sampled_from(["a", "b.parquet", "day=1/c"]), min_size=1, max_size=3).map("".join)
OTHER = st.sampled_from(["a b", "x*.parquet", "{y}", "/etc/z", "é", "a:b", "s3://bucket/q", "p%q"])


class _Store:
    def __init__(self, root: str) -> None:
        self.local_root = root if root.startswith("/") else None
        self.root_url = f"file://{root}" if self.local_root else root


@given(st.lists(PLAIN, max_size=3) | st.lists(PLAIN | OTHER, max_size=3), st.sampled_from(ROOTS))
def test_many_files_are_named_as_each_is(relatives: list[str], root: str) -> None:
    store: Any = _Store(root)
    locations = DataLocations(store)
    assert locations.spark_paths(relatives) == [locations.spark_path(relative) for relative in relatives]
    assert locations.metadata_urls(relatives) == [locations.metadata_url(relative) for relative in relatives]


@pytest.mark.parametrize(
    ("named", "spelled"),
    [
        ("s3://b/k x", "s3a://b/k%20x"),
        ("s3n://b/k", "s3a://b/k"),
        ("s3a://b/k", "s3a://b/k"),
        ("abfs://c@a.dfs.core.windows.net/k", "abfss://c@a.dfs.core.windows.net/k"),
        ("gs://b/k", "gs://b/k"),
        ("/data/k", "file:/data/k"),
    ],
)
@pytest.mark.parametrize("root", ROOTS)
def test_a_file_outside_the_root_has_the_scheme_that_spark_has_a_connector_for(
    named: str, spelled: str, root: str
) -> None:
    store: Any = _Store(root)
    locations = DataLocations(store, allow_outside_root=True)
    assert locations.metadata_url(named) == spelled
    assert locations.spark_path(named) == locations.place(named) == spelled.replace("%20", " ").removeprefix("file:")


@pytest.mark.parametrize("name", ["part-00000-6e1b.c000.snappy.parquet", "day=2026-11-22/a_b.parquet"])
def test_names_that_writers_give_are_plain(name: str) -> None:
    assert are_plain([name, name])


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", ".", "..", "./a", "a/../b", ".a", "a%20b", "a b", "a:b", "\0"]
)
def test_what_may_be_spelled_otherwise_is_not_plain(name: str) -> None:
    assert not are_plain(["a", name])
    assert not are_plain([name])


@pytest.mark.parametrize(
    ("root", "relative", "is_read"),
    [
        ("/data/t", "a:b.parquet", True),
        ("/data/t*", "a.parquet", True),
        ("/data/t:*", "a.parquet", False),
        ("/data/t[1]", "a:b.parquet", False),
        # The port of a server is no part of a path.
        ("hdfs://server:8020/t[1]", "a.parquet", True),
        ("hdfs://server:8020/t[1]", "a:b.parquet", False),
    ],
)
def test_a_colon_beside_what_is_escaped_cannot_be_opened(root: str, relative: str, is_read: bool) -> None:
    store: Any = _Store(root)
    locations = DataLocations(store)
    assert locations.unreadable([relative]) == (None if is_read else locations.place(relative))
