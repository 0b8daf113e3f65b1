"""Stores as a WebHDFS: what Hadoop's client asks for, who is answered, and what becomes of errors."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from slackwater.errors import StorageError
from slackwater.storage import open_store, webhdfs_server
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.store import ObjectStore
from slackwater.storage.webhdfs_server import WebHdfs

_LARGE = bytes(range(256)) * 16384


class Client:
    """Asks as Hadoop's client does: by one connection, and of where it is sent to."""

    def __init__(self, served: WebHdfs, store: ObjectStore) -> None:
        url = urlsplit(served.root(store))
        self.root, self.header = url.path, served.header
        self.connection = http.client.HTTPConnection(url.netloc, timeout=20)

    def ask(self, path: str, operation: str, **asked: object) -> tuple[int, bytes]:
        named = "".join(f"&{name}={value}" for name, value in asked.items())
        target = f"/webhdfs/v1{self.root}/{path}?op={operation}&user.name=me{named}"
        status, answer, place = self._sent(target)
        if status == http.client.TEMPORARY_REDIRECT:
            url = urlsplit(place)
            status, answer, _ = self._sent(f"{url.path}?{url.query}")
        return status, answer

    def told(self, path: str, operation: str) -> Any:
        return json.loads(self.ask(path, operation)[1])

    def _sent(self, target: str) -> tuple[int, bytes, str]:
        self.connection.putrequest("GET", "")
        # As Java writes it: letters of other scripts as they are.
        self.connection._buffer[0] = f"GET {target} HTTP/1.1".encode()  # type: ignore[attr-defined]
        if self.header:
            self.connection.putheader(self.header, '""')
        self.connection.endheaders()
        answer = self.connection.getresponse()
        return answer.status, answer.read(), answer.headers.get("Location", "")


@pytest.fixture
def store() -> ObjectStore:
    found = open_store("memory://t")
    found.put("p=a b/part-ü%20#?.parquet", b"0123456789")
    found.put("large", _LARGE)
    return found


@pytest.fixture(scope="module")
def served() -> Iterator[WebHdfs]:
    found = WebHdfs()
    yield found
    found.close()


@pytest.fixture
def client(served: WebHdfs, store: ObjectStore) -> Iterator[Client]:
    found = Client(served, store)
    yield found
    found.connection.close()


def test_a_file_is_told_of_as_it_is_in_the_store(client: Client, store: ObjectStore) -> None:
    meta = store.head("large")
    assert meta is not None
    status = client.told("large", "GETFILESTATUS")["FileStatus"]
    assert (status["type"], status["length"], status["modificationTime"]) == ("FILE", len(_LARGE), meta.modified_ms)
    assert client.told("large", "LISTSTATUS")["FileStatuses"]["FileStatus"] == [status]
    (block,) = client.told("large", "GETFILEBLOCKLOCATIONS")["BlockLocations"]["BlockLocation"]
    assert block["length"] == len(_LARGE)


@pytest.mark.parametrize("path", ["", "p=a%20b"])
def test_what_holds_objects_is_a_directory(client: Client, path: str) -> None:
    assert client.told(path, "GETFILESTATUS")["FileStatus"]["type"] == "DIRECTORY"


@pytest.mark.parametrize("name", [quote("p=a b/part-ü%20#?.parquet"), "p=a%20b/part-ü%2520%23%3F.parquet"])
def test_names_are_literal_however_they_are_sent(client: Client, name: str) -> None:
    assert client.ask(name, "OPEN", offset=3) == (200, b"3456789")


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, None), (7, None), (0, 8), (1, 600_000), (4_000_000, None), (4_194_300, 4), (4_194_304, None), (5_000_000, 1)],
)
def test_ranges_are_whole(client: Client, start: int, length: int | None) -> None:
    asked = {"offset": start} | ({} if length is None else {"length": length})
    expected = _LARGE[start:] if length is None else _LARGE[start : start + length]
    for _ in range(2):
        assert client.ask("large", "OPEN", **asked) == (200, expected)


def test_the_end_of_a_file_is_fetched_once(client: Client, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, read_range = [], store.read_range

    def counted(path: str, start: int, length: int) -> bytes:
        fetched.append(path)
        return read_range(path, start, length)

    monkeypatch.setattr(store, "read_range", counted)
    assert client.ask("large", "OPEN", offset=len(_LARGE) - 8) == (200, _LARGE[-8:])
    assert client.ask("large", "OPEN", offset=len(_LARGE) - 500) == (200, _LARGE[-500:])
    assert fetched == ["large"]


@pytest.mark.parametrize("header", ["", "X-Slackwater-guessed"])
@pytest.mark.parametrize("operation", ["OPEN", "GETFILESTATUS", "LISTSTATUS"])
def test_who_does_not_know_the_secret_is_told_nothing(client: Client, header: str, operation: str) -> None:
    client.header = header
    status, answer = client.ask("large", operation)
    assert status == 403
    assert json.loads(answer)["RemoteException"]["exception"] == "IOException"


@pytest.mark.parametrize("operation", ["OPEN", "GETFILESTATUS"])
@pytest.mark.parametrize("path", ["gone", "../99999/large", "p=a%20b/gone"])
def test_what_is_not_there_is_not_found(client: Client, path: str, operation: str) -> None:
    status, answer = client.ask(path, operation)
    assert status in (404, 500)
    assert json.loads(answer)["RemoteException"]["exception"] in ("FileNotFoundException", "IOException")


def test_a_store_of_another_number_is_not_found(client: Client) -> None:
    client.root = "/99999"
    assert client.ask("large", "GETFILESTATUS")[0] == 404


def test_nothing_is_changed_by_it(client: Client) -> None:
    assert client.ask("large", "GETTRASHROOT")[0] == 400
    client.connection.request("DELETE", f"/webhdfs/v1{client.root}/large?op=DELETE", headers={client.header: '""'})
    assert client.connection.getresponse().status == 501


def test_a_file_that_breaks_off_ends_the_connection(
    client: Client, store: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read_range = store.read_range

    def broken(path: str, start: int, length: int) -> bytes:
        if start:
            raise StorageError("the store is gone")
        return read_range(path, start, length)

    monkeypatch.setattr(store, "read_range", broken)
    with pytest.raises(http.client.IncompleteRead):
        client.ask("large", "OPEN")
    assert "the store is gone" in caplog.text


def test_a_reader_may_wait_for_longer_than_a_connection_is_idle(
    served: WebHdfs, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhdfs_server._Requests, "timeout", 0.2)
    store.put("huge", _LARGE * 4)
    client = Client(served, store)
    client.connection.request(
        "GET", f"/webhdfs/v1{client.root}/huge?op=OPEN&direct=true", headers={client.header: '""'}
    )
    answer = client.connection.getresponse()
    first = answer.read(1000)
    time.sleep(1)
    assert first + answer.read() == _LARGE * 4
    client.connection.close()


def test_an_object_that_is_put_anew_is_told_of_anew_unless_it_will_not_change(
    served: WebHdfs, client: Client, store: ObjectStore
) -> None:
    def seen(path: str) -> tuple[int, bytes]:
        size = client.told(path, "GETFILESTATUS")["FileStatus"]["length"]
        return size, client.ask(path, "OPEN", offset=1)[1]

    store.put("checkpoint", b"abc")
    assert seen("checkpoint") == (3, b"bc")
    store.put("checkpoint", b"uvwxyz")
    assert seen("checkpoint") == (6, b"vwxyz")
    meta = store.head("checkpoint")
    assert meta is not None
    served.pin_status(served.root(store), meta)
    store.delete(["checkpoint"])
    assert client.told("checkpoint", "GETFILESTATUS")["FileStatus"]["length"] == 6


def test_an_error_of_the_store_is_told(client: Client, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: str) -> None:
        raise StorageError(f"{path}: no such credentials")

    monkeypatch.setattr(store, "head", refused)
    status, answer = client.ask("large", "OPEN")
    assert status == 500
    assert json.loads(answer)["RemoteException"]["message"] == "large: no such credentials"


def test_stores_of_one_place_are_one_root(served: WebHdfs, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = str(tmp_path_factory.mktemp("t"))
    first, same = open_store(place), open_store(place)
    assert isinstance(first, LocalObjectStore)
    assert first is not same
    assert served.root(first) == served.root(same)
    assert served.root(open_store("memory://t")) != served.root(open_store("memory://t"))


def test_an_object_outside_of_the_root_is_read_with_its_credentials(
    served: WebHdfs, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_store("memory://u")
    other.put("clone of/x", b"abc")
    monkeypatch.setattr(store, "at", lambda url: (other, {"s3a://bucket/clone%20of/x": "clone of/x"}[url]))
    place = urlsplit(served.outside(served.root(store), "s3a://bucket/clone of/x")).path
    client = Client(served, store)
    client.root = place.rpartition("/")[0].replace(" ", "%20")
    assert client.ask("x", "OPEN") == (200, b"abc")
    client.connection.close()
