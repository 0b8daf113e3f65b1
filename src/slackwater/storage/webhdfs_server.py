"""Read-only WebHDFS server for a JVM of this machine without a file system for a store.

Hadoop's own client, which every Spark contains, reads HDFS over HTTP by the WebHDFS protocol. Each store is a directory
of this server. Source: Apache Hadoop, "WebHDFS REST API" (GETFILESTATUS, LISTSTATUS, OPEN).
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import secrets
import threading
from collections import OrderedDict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

from slackwater.errors import ObjectNotFound, SlackwaterError
from slackwater.storage.path_guard import open_resolved
from slackwater.storage.store import ObjectMeta, ObjectStore

_PREFIX = "/webhdfs/v1/"
_OUTSIDE = "@"
# A range is fetched in growing parts, because clients do not send the length they need.
_FIRST_BYTES, _MOST_BYTES = 512 << 10, 8 << 20
_OTHER_BYTES = re.compile(r"[\x80-\xff]")
_BLOCK_BYTES = 128 << 20
_MOST_HEADS = 100_000
# A Parquet reader reads the end of a file twice, then the part before the end, which the cached end may contain.
_END_BYTES, _MOST_ENDS = 64 << 10, 256
_IDLE_S = 300
K = TypeVar("K")
T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class WebHdfs:
    """Serves stores to processes of this machine that send `header` with each request. Stops when the process exits.

    The name of the header is the secret: Hadoop's client sends a header named by a setting, and never displays it.
    """

    def __init__(self) -> None:
        self.header = f"X-Slackwater-{secrets.token_hex(24)}"
        self._numbers: dict[bytes | int, int] = {}
        self._stores: list[ObjectStore] = []
        self._heads: OrderedDict[str, ObjectMeta] = OrderedDict()
        self._asked: OrderedDict[str, ObjectMeta] = OrderedDict()
        self._ends: OrderedDict[tuple[str, ObjectMeta], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Requests)
        self._server.served = self
        threading.Thread(target=self._server.serve_forever, name="slackwater-webhdfs", daemon=True).start()

    @property
    def url(self) -> str:
        """Root URL of all stores."""
        return f"webhdfs://127.0.0.1:{self._server.server_address[1]}"

    def root(self, store: ObjectStore) -> str:
        """Return the URL of the root of `store`. Stores of one location with the same credentials share one URL."""
        key = _key(store)
        with self._lock:
            if key not in self._numbers:
                self._numbers[key] = len(self._stores)
                self._stores.append(store)
            return f"{self.url}/{self._numbers[key]}"

    def pin_status(self, root: str, meta: ObjectMeta) -> None:
        """Cache `meta` as the unchanging status of an object in the store at URL `root`, to save requests."""
        self._keep(self._heads, f"{root.rpartition('/')[2]}/{meta.path}", meta, _MOST_HEADS)

    @staticmethod
    def outside(root: str, url: str) -> str:
        """Return the URL of an object outside of the store at `root`, with its credentials; `url` is literal."""
        scheme, _, rest = url.partition("://")
        return f"{root}{_OUTSIDE}{scheme}/{rest}"

    def close(self) -> None:
        """Shut down the server."""
        self._server.shutdown()
        self._server.server_close()

    def place(self, path: str) -> tuple[ObjectStore, str]:
        """Return the store and the path in it of `path`, which starts with the number of a store.

        Raises ObjectNotFound if the store does not exist, PathNotAllowed, InvalidArgument.
        """
        head, _, rest = path.partition("/")
        number, outside, scheme = head.partition(_OUTSIDE)
        if not number.isdecimal() or int(number) >= len(self._stores):
            raise ObjectNotFound(f"no store is served under the name {head!r}")
        store = self._stores[int(number)]
        return open_resolved(store, f"{scheme}://{rest}") if outside else (store, rest)

    def head(self, path: str) -> ObjectMeta | None:
        """Return the pinned status of the object at `path`, else its current status. None if the object is missing."""
        found = self._known(self._heads, path)
        if found is None:
            store, rest = self.place(path)
            found = store.head(rest) if rest else None
            if found is not None:
                self._keep(self._asked, path, found, _MOST_HEADS)
        return found

    def opened(self, path: str) -> ObjectMeta:
        """Return the status of the object at `path` as last reported to its reader. Raises ObjectNotFound."""
        found = self._known(self._heads, path) or self._known(self._asked, path) or self.head(path)
        if found is None:
            store, rest = self.place(path)
            raise ObjectNotFound(f"{store.root_url}/{rest} does not exist")
        return found

    def read(self, path: str, meta: ObjectMeta, start: int, length: int) -> bytes:
        """Return a range of the object at `path` with status `meta`. Raises ObjectNotFound, StorageError."""
        store, rest = self.place(path)
        before_end = max(0, meta.size_bytes - _END_BYTES)
        if start < before_end or not length:
            return store.read_range(rest, start, length)
        end = self._known(self._ends, (path, meta))
        if end is None:
            end = store.read_range(rest, before_end, meta.size_bytes - before_end)
            self._keep(self._ends, (path, meta), end, _MOST_ENDS)
        return end[start - before_end :][:length]

    def _known(self, kept: OrderedDict[K, T], key: K) -> T | None:
        with self._lock:
            return kept.get(key)

    def _keep(self, kept: OrderedDict[K, T], key: K, value: T, most: int) -> None:
        with self._lock:
            kept[key] = value
            while len(kept) > most:
                kept.popitem(last=False)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    served: WebHdfs

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing. Readers often close connections early, and detect errors by the missing end of the response."""


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without Nagle's algorithm the body does not wait for the acknowledgement of the header.
    disable_nagle_algorithm = True
    timeout = _IDLE_S
    server: _Server

    def do_GET(self) -> None:
        # Hadoop's client sends non-ASCII letters unescaped, and http.server decodes each byte as one character.
        self.path = _OTHER_BYTES.sub(lambda found: f"%{ord(found[0]):02X}", self.path)
        url = urlsplit(self.path)
        asked = {name.lower(): values[-1] for name, values in parse_qs(url.query).items()}
        path = unquote_to_bytes(url.path).decode().removeprefix(_PREFIX)
        if self.headers.get(self.server.served.header) is None:
            return self._refuse(HTTPStatus.FORBIDDEN, "java.io.IOException", "another process's store")
        try:
            return self._answer(asked.get("op", "").upper(), path, asked)
        except ObjectNotFound as error:
            return self._refuse(HTTPStatus.NOT_FOUND, "java.io.FileNotFoundException", str(error))
        except SlackwaterError as error:
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "java.io.IOException", str(error))

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _answer(self, operation: str, path: str, asked: dict[str, str]) -> None:
        if operation == "OPEN":
            return self._open(path, asked)
        status = self._status(path)
        if operation == "GETFILESTATUS":
            return self._tell({"FileStatus": status})
        if operation == "LISTSTATUS":
            return self._tell({"FileStatuses": {"FileStatus": [status]}})
        if operation in ("GETFILEBLOCKLOCATIONS", "GET_BLOCK_LOCATIONS"):
            return self._tell({"BlockLocations": {"BlockLocation": [_block(status["length"])]}})
        name = "java.lang.UnsupportedOperationException"
        return self._refuse(HTTPStatus.BAD_REQUEST, name, f"{operation}: stores are read only")

    def _status(self, path: str) -> dict[str, Any]:
        meta = self.server.served.head(path)
        if meta is not None:
            return _status("FILE", meta.size_bytes, meta.modified_ms)
        store, rest = self.server.served.place(path)
        if rest and not store.list_from(rest):
            raise ObjectNotFound(f"{store.root_url}/{rest} does not exist")
        return _status("DIRECTORY", 0, 0)

    def _open(self, path: str, asked: dict[str, str]) -> None:
        if "direct" not in asked:
            return self._redirect()
        served = self.server.served
        meta = served.opened(path)
        start = min(int(asked.get("offset", 0)), meta.size_bytes)
        left = min(int(asked.get("length", meta.size_bytes)), meta.size_bytes - start)
        size = _FIRST_BYTES
        part = served.read(path, meta, start, min(left, size))
        self._begin(HTTPStatus.OK, left)
        # A later error closes the connection, so that the reader detects the missing bytes.
        self.close_connection = True
        # No timeout, because a reader may process rows for any time before it reads on.
        self.connection.settimeout(None)
        try:
            while part:
                self.wfile.write(part)
                start, left, size = start + len(part), left - len(part), min(2 * size, _MOST_BYTES)
                part = served.read(path, meta, start, min(left, size)) if left else b""
            self.close_connection = left > 0
        except SlackwaterError as error:
            _LOG.warning("the response for a file that Spark reads was interrupted: %s", error)
        except OSError:
            pass  # The reader closed the connection early.
        self.connection.settimeout(self.timeout)
        return None

    def _redirect(self) -> None:
        """Redirect to this server, because the client expects the name node to redirect to a data node."""
        self.send_response_only(HTTPStatus.TEMPORARY_REDIRECT)
        self.send_header("Location", f"http://{self.headers['Host']}{self.path}&direct=true")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _tell(self, answer: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> None:
        text = json.dumps(answer).encode()
        self._begin(status, len(text))
        self.wfile.write(text)

    def _refuse(self, status: HTTPStatus, java_class: str, message: str) -> None:
        name = java_class.rpartition(".")[2]
        self._tell({"RemoteException": {"exception": name, "javaClassName": java_class, "message": message}}, status)

    def _begin(self, status: HTTPStatus, length: int) -> None:
        # No Content-Type, because Spark's shaded client lacks the classes to parse one.
        self.send_response_only(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()


def _key(store: ObjectStore) -> bytes | int:
    """Return the identity of a store: equal for stores of one location with the same credentials."""
    try:
        return pickle.dumps(store)
    except SlackwaterError:
        return id(store)


def _status(kind: str, length: int, modified_ms: int) -> dict[str, Any]:
    return {
        "accessTime": 0,
        "blockSize": _BLOCK_BYTES,
        "group": "",
        "length": length,
        "modificationTime": modified_ms,
        "owner": "",
        "pathSuffix": "",
        "permission": "444",
        "replication": 1,
        "type": kind,
    }


def _block(length: int) -> dict[str, Any]:
    return {
        "cachedHosts": [],
        "corrupt": False,
        "hosts": ["localhost"],
        "length": length,
        "names": ["localhost:0"],
        "offset": 0,
        "topologyPaths": [],
    }
