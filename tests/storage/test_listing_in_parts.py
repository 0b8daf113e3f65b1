"""Listings by several requests at a time are those of one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import obstore.store
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.storage import listing
from slackwater.storage.listing import list_below

# Directories, names beside them that begin alike, and one that is that of a directory.
NAMES = st.lists(st.sampled_from(["p=1", "p=2", "p=3", "p=10", "_delta_log", "p", "ü", "😀"]), min_size=1, max_size=3)
PATHS = st.sets(NAMES.map("/".join), max_size=30)


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)
    monkeypatch.setattr(listing, "_LISTERS", 4)


class Backend:
    """Objects by their names, listed as a store lists them."""

    def __init__(self, paths: list[str], knows_offsets: bool = True) -> None:
        self.paths = paths
        self.knows_offsets = knows_offsets
        self.listed_by: dict[str | None, int] = {}

    def list(self, prefix: str | None, offset: str | None = None, chunk_size: int = 0) -> Iterator[list[Any]]:
        below = [path for path in self.paths if path.startswith(f"{prefix}/" if prefix else "")]
        if offset and self.knows_offsets:
            below = [path for path in below if path > offset]
        for start in range(0, len(below), chunk_size):
            self.listed_by[offset] = threading.get_ident()
            yield [{"path": path} for path in below[start : start + chunk_size]]

    def list_with_delimiter(self, prefix: str | None) -> dict[str, Any]:
        rest = [path.removeprefix(f"{prefix}/") for path in self.paths]
        found = {path.partition("/")[0] for path in rest if "/" in path}
        return {"common_prefixes": sorted(f"{prefix}/{name}" for name in found)}


def _listed(backend: Any, prefix: str | None) -> list[str]:
    return [meta["path"] for meta in list_below(backend, prefix)]


@pytest.mark.parametrize("knows_offsets", [True, False])
@pytest.mark.usefixtures("_small_pages")
@given(paths=PATHS)
def test_each_object_is_listed_once(knows_offsets: bool, paths: set[str]) -> None:
    paths = {f"t/{path}" for path in paths}
    assert _listed(Backend(sorted(paths), knows_offsets), "t") == sorted(paths)


@given(paths=PATHS)
def test_a_store_that_lists_in_no_order_is_listed_page_by_page(paths: set[str]) -> None:
    backwards = sorted((f"t/{path}" for path in paths), reverse=True)
    assert _listed(Backend(backwards), "t") == sorted(backwards)


@given(paths=PATHS)
def test_a_store_in_memory_is_listed_so(paths: set[str]) -> None:
    store = obstore.store.MemoryStore()
    for path in paths:
        store.put(f"t/{path}", b"x")
    assert _listed(store, "t") == sorted(f"t/{path}" for path in paths)


def test_what_is_more_than_a_page_is_listed_side_by_side() -> None:
    backend = Backend(sorted(f"t/p={number}/f{file}" for number in range(8) for file in range(4)))
    assert _listed(backend, "t") == backend.paths
    assert [*sorted(filter(None, backend.listed_by))] == ["t/p=0/f2", "t/p=1", "t/p=4", "t/p=7"]
    assert len(set(backend.listed_by.values())) > 1


def test_one_page_needs_one_listing() -> None:
    backend = Backend(["t/a", "t/p=1/b"])
    assert _listed(backend, "t") == backend.paths
    assert list(backend.listed_by) == [None]


def test_an_error_of_a_part_is_raised() -> None:
    class Failing(Backend):
        def list(self, prefix: str | None, offset: str | None = None, chunk_size: int = 0) -> Iterator[list[Any]]:
            if offset == "t/p=4":
                raise OSError("no answer")
            return super().list(prefix, offset, chunk_size)

    backend = Failing(sorted(f"t/p={number}/f{file}" for number in range(8) for file in range(4)))
    with pytest.raises(OSError, match="no answer"):
        _listed(backend, "t")
