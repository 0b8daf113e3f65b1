"""Stores of an owner's tables: URLs, their form in the database, and the permitted roots.

A lake directory can be moved, because locations below the lake's root are stored relative to it.
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
    """Store registry of the tables. Locations are relative to `root`. `roots` confine tables, None for no limit."""

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
        """URL of the lake's root."""
        return self._root.url

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Credentials and settings used to open tables."""
        return self._options

    def written(self, location: str) -> str:
        """Return the database form of `location`. Raises InvalidArgument, PathNotAllowed."""
        found = parse_location(location)
        self._require_allowed(found)
        inside = _below(found, self._root)
        return found.url if inside is None else inside

    def url(self, written: str) -> str:
        """Return the URL of the table root with the database form `written`."""
        if written not in self._urls:
            self._urls[written] = self._location(written).url
        return self._urls[written]

    def store(self, written: str) -> ObjectStore:
        """Return the store of a table. Raises PathNotAllowed if the location is now outside the roots."""
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
                f"{location.url} is outside the roots of this commit owner. Put the table below one of them, or "
                "start the owner with this root"
            )


def _below(location: Location, root: Location) -> str | None:
    """Return the path of `location` below `root`, None if not below it or equal to it."""
    if (location.scheme, location.authority) != (root.scheme, root.authority):
        return None
    prefix = f"{root.key}/" if root.key else ""
    inside = location.key.removeprefix(prefix)
    return inside if location.key.startswith(prefix) and inside and "://" not in inside else None


def _real(location: Location) -> Location:
    """Return the location with symbolic links resolved."""
    if location.scheme != LOCAL:
        return location
    return Location(LOCAL, "", os.path.realpath("/" + location.key).strip("/"))
