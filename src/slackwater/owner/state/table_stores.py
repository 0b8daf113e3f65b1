"""Where an owner's tables are: their URLs, how the database writes them down, and the roots that confine them.

A lake that is a directory can be moved: what is below it is written down relative to it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence

from slackwater.errors import PathNotAllowed
from slackwater.storage.location import LOCAL, Location, parse_location
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore


class TableStores:
    """Opens the tables' stores. `root`: what locations are relative to; `roots`: where tables may be, None anywhere."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        roots: Sequence[str | os.PathLike[str]] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._root = parse_location(root)
        self._roots = None if roots is None else [_real(parse_location(r)) for r in roots]
        self._options = dict(storage_options or {})
        self._stores: dict[str, ObjectStore] = {}
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def root_url(self) -> str:
        """The lake's root."""
        return self._root.url

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The credentials and settings with which tables are opened."""
        return self._options

    def written(self, location: str) -> str:
        """How the database writes down the table at `location`. Raises InvalidArgument, PathNotAllowed."""
        found = parse_location(location)
        self._require_allowed(found)
        inside = _below(found, self._root)
        return found.url if inside is None else inside

    def url(self, written: str) -> str:
        """The URL of a table's root that is written down as `written`."""
        if written not in self._urls:
            self._urls[written] = self._location(written).url
        return self._urls[written]

    def store(self, written: str) -> ObjectStore:
        """The store of a table. Raises PathNotAllowed where it lies outside the roots (by now)."""
        location = self._location(written)
        self._require_allowed(location)
        with self._lock:
            if location.url not in self._stores:
                self._stores[location.url] = open_store(location.url, self._options)
            return self._stores[location.url]

    def _location(self, written: str) -> Location:
        if "://" in written:
            return parse_location(written)
        root = self._root
        return Location(root.scheme, root.authority, f"{root.key}/{written}".strip("/"))

    def _require_allowed(self, location: Location) -> None:
        if self._roots is None:
            return
        real = _real(location)
        if not any(_below(real, root) is not None for root in self._roots):
            raise PathNotAllowed(
                f"{location.url} is outside the roots that this commit owner serves: put the table below one of them, "
                "or start the owner with this root"
            )


def _below(location: Location, root: Location) -> str | None:
    """The path of `location` below `root`, which is not the root itself; None elsewhere."""
    if (location.scheme, location.authority) != (root.scheme, root.authority):
        return None
    prefix = f"{root.key}/" if root.key else ""
    inside = location.key.removeprefix(prefix)
    return inside if location.key.startswith(prefix) and inside and "://" not in inside else None


def _real(location: Location) -> Location:
    """The place that symbolic links lead to."""
    if location.scheme != LOCAL:
        return location
    return Location(LOCAL, "", os.path.realpath("/" + location.key).strip("/"))
