"""Listings of stores that do not do all that they are asked for."""

from __future__ import annotations

from typing import Any

from slackwater.storage import open_store


class _WithoutOffsets:
    """A backend as a look-alike of S3 is that takes no notice of where a listing shall begin."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def list(self, prefix: str | None, offset: str | None, chunk_size: int) -> Any:
        del offset
        return self._backend.list(prefix, chunk_size=chunk_size)


def test_a_store_that_knows_no_offset_is_listed_to_its_end() -> None:
    store: Any = open_store("memory://without-offsets/t")
    for name in ("d/a", "d/b/x", "d/b/y", "d/c", "d/d/z", "d/e"):
        store.put(name, b"")
    store._backend = _WithoutOffsets(store._backend)
    assert [meta.path for meta in store.list_from("d", "d/a")] == ["d/c", "d/e"]
