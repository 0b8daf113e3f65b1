"""All objects below a prefix of a store that lists in order: what is more than a page, by several requests at a time.

A store gives a thousand names a request, one request after the other. Where the directories are known, so are names
between which there are others: the listings of these ranges do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Any

PAGE = 1_000
_LISTERS = 16


def list_below(backend: Any, prefix: str | None) -> list[Any]:
    """The objects, in the order of their names, however the store orders them. Raises what `backend` raises."""
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
        # What is between two names cannot be told then.
        pass
    return _sorted(chain(first, second, *pages))


class _Unordered(Exception):
    """Names do not come in order."""


def _require_order(metas: Sequence[Any]) -> None:
    if any(later["path"] < meta["path"] for meta, later in pairwise(metas)):
        raise _Unordered


def _bounds(backend: Any, prefix: str | None, listed: str) -> list[str]:
    """Names behind which parts of the rest begin: `listed`, the last one of what is there, then directories."""
    later = sorted(name for name in backend.list_with_delimiter(prefix)["common_prefixes"] if name > listed)
    step = -(-len(later) // (_LISTERS - 1)) or 1
    return [listed, *later[::step]]


def _part(backend: Any, prefix: str | None, behind: str, last: str | None) -> list[Any]:
    """The objects whose names are greater than `behind`, and not than `last`."""
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
            # Look-alikes of a store may not know what an offset is.
            if before > behind:
                yield meta


def _sorted(metas: Any) -> list[Any]:
    return sorted(metas, key=lambda meta: meta["path"])
