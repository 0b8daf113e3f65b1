"""Listing of all objects below a prefix, with parallel requests after the first page, for stores that list in order.

A store returns a thousand names per request, one request after another. The names of the directories split the
remaining names into ranges. The ranges are listed in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Any

PAGE = 1_000
_LISTERS = 16


def list_below(backend: Any, prefix: str | None) -> list[Any]:
    """Return the objects sorted by name, in whatever order the store lists. Raises the errors of `backend`."""
    pages = iter(backend.list(prefix, chunk_size=PAGE))
    first: Sequence[Any] = next(pages, ())
    second: Sequence[Any] | None = next(pages, None)
    if second is None:
        return _sorted(first)
    try:
        _require_order([*first, *second])
        bounds = _bounds(backend, prefix, first[-1]["path"])
        if len(bounds) > 1:
            with ThreadPoolExecutor(len(bounds)) as pool:
                lasts = [*bounds[1:], None]
                parts = [pool.submit(_part, backend, prefix, *ends) for ends in zip(bounds, lasts, strict=True)]
                return _sorted(chain(first, *(part.result() for part in parts)))
    except _Unordered:
        # Ranges of names need a store that lists in order, so continue without them.
        pass
    return _sorted(chain(first, second, *pages))


class _Unordered(Exception):
    """Names were not listed in order."""


def _require_order(metas: Sequence[Any]) -> None:
    if any(later["path"] < meta["path"] for meta, later in pairwise(metas)):
        raise _Unordered


def _bounds(backend: Any, prefix: str | None, listed: str) -> list[str]:
    """Return the start names of the remaining ranges, exclusive: `listed`, the last name read, then directories."""
    later = sorted(name for name in backend.list_with_delimiter(prefix)["common_prefixes"] if name > listed)
    step = -(-len(later) // (_LISTERS - 1)) or 1
    return [listed, *later[::step]]


def _part(backend: Any, prefix: str | None, behind: str, last: str | None) -> list[Any]:
    """Return the objects with names greater than `behind` and at most `last`."""
    found: list[Any] = []
    for meta in _following(backend, prefix, behind):
        if last is not None and meta["path"] > last:
            break
        found.append(meta)
    return found


def _following(backend: Any, prefix: str | None, behind: str) -> Iterator[Any]:
    before = ""
    for page in backend.list(prefix, offset=behind, chunk_size=PAGE):
        for meta in page:
            if meta["path"] < before:
                raise _Unordered
            before = meta["path"]
            # Some S3-compatible stores ignore the offset.
            if before > behind:
                yield meta


def _sorted(metas: Any) -> list[Any]:
    return sorted(metas, key=lambda meta: meta["path"])
