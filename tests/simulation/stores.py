"""Object stores of a simulated lake: in memory, copied with it, and now and then their answers are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError
from slackwater.owner.state.table_stores import TableStores
from slackwater.storage.store import ChunkedBytes, ObjectMeta


class SimulatedStore:
    """One table's objects; the methods of `ObjectStore` that an owner uses.

    `fails` says of each change whether it gets no answer, be it done or not; each is done or not as `is_done` says.
    """

    local_root = None

    def __init__(self, root_url: str, objects: dict[str, bytes], fails: Callable[[], bool]) -> None:
        self.root_url = root_url
        self.objects = objects
        self._fails = fails

    def read(self, path: str) -> bytes:
        if path not in self.objects:
            raise ObjectNotFound(f"{self.root_url}/{path}")
        return self.objects[path]

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def head(self, path: str) -> ObjectMeta | None:
        return ObjectMeta(path, len(self.objects[path]), 0) if path in self.objects else None

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        inside = (p for p in sorted(self.objects) if p.startswith(f"{prefix}/") and p > start_after)
        return [
            ObjectMeta(path, len(self.objects[path]), 0)
            for path in inside
            if recursive or "/" not in path.removeprefix(f"{prefix}/")
        ]

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        if self._fails():
            if path not in self.objects and len(data) % 2:
                self.objects[path] = bytes(data)
            raise StorageError(f"{self.root_url}/{path}: no answer")
        if path in self.objects:
            raise ObjectExists(f"{self.root_url}/{path}")
        self.objects[path] = bytes(data)

    def copy_if_absent(self, src: str, dst: str) -> None:
        self.put_if_absent(dst, self.read(src))

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.objects.pop(path, None)


class SimulatedPlaces(TableStores):
    """The tables of a simulated lake, by where they are."""

    def __init__(self, root: str, stores: dict[str, SimulatedStore]) -> None:
        super().__init__(root)
        self._simulated = stores

    def store(self, written: str) -> Any:
        return self._simulated[self.url(written)]
