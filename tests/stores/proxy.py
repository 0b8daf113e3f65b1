"""A proxy before an S3 server that does to requests what networks and busy stores do, and counts them."""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_CONDITION = "if-none-match"
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of the store: `list`, `get`, `head`, `put`, `delete` or `other`, and the key or prefix.

    `is_conditional`: only where nothing is there yet. `signed_by` is the access key of the sender.
    """

    kind: str
    key: str
    is_conditional: bool = False
    signed_by: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a request.

    `status` is answered in the store's place with `body`, and the store hears nothing unless `is_done`. With
    `unconditional` it hears nothing of the condition, as a store that does not know it. With `loses_answer` the store
    does the work, and the connection ends without a word. `cut` is the share of the body after which it ends. `hides`:
    keys that a list leaves out, as one that is stale does.
    """

    delay_s: float = 0.0
    status: int | None = None
    body: bytes = SLOW_DOWN
    is_done: bool = False
    unconditional: bool = False
    loses_answer: bool = False
    cut: float | None = None
    hides: Callable[[str], bool] | None = None


@dataclass
class FaultProxy:
    """A running proxy: its storage options, what it has seen, and what it does, `None` being nothing."""

    options: dict[str, str]
    fault: Callable[[Request], Fault | None] = field(default=lambda _: None)
    seen: list[Request] = field(default_factory=list)

    def counts(self) -> Counter[str]:
        """How many requests of each kind there were."""
        return Counter(request.kind for request in self.seen)

    @contextlib.contextmanager
    def faults(self, fault: Callable[[Request], Fault | None]) -> Iterator[None]:
        """Within the block, what `fault` says is done."""
        before, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = before

    def times(self, kind: str, fault: Fault, times: int = 1) -> contextlib.AbstractContextManager[None]:
        """Within the block, `fault` for the next `times` requests of a kind."""
        left, lock = [times], threading.Lock()

        def next_ones(request: Request) -> Fault | None:
            with lock:
                if request.kind != kind or not left[0]:
                    return None
                left[0] -= 1
                return fault

        return self.faults(next_ones)


@contextlib.contextmanager
def fault_proxy(options: dict[str, str]) -> Iterator[FaultProxy]:
    """A proxy before the store that `options` reach by AWS_ENDPOINT_URL."""
    backend = urlsplit(options["AWS_ENDPOINT_URL"]).netloc

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = _request(self.command, self.path, _CONDITION in map(str.lower, self.headers))
            signature = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
            proxy.seen.append(replace(request, signed_by="" if signature is None else signature[1]))
            fault = proxy.fault(request) or Fault()
            time.sleep(fault.delay_s)
            if fault.status is not None and not fault.is_done:
                self._answer(fault.status, [], fault.body, fault.cut)
                return
            said = {
                name: value
                for name, value in self.headers.items()
                if not (fault.unconditional and name.lower() == _CONDITION)
            }
            status, headers, found = _asked(backend, self.command, self.path, said, body)
            if fault.status is not None:
                self._answer(fault.status, [], fault.body, fault.cut)
                return
            if fault.loses_answer:
                self.close_connection = True
                return
            if fault.hides is not None and request.kind == "list":
                found = _without(found, fault.hides)
            self._answer(status, headers, found, fault.cut)

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, cut: float | None = None) -> None:
            self.send_response_only(status)
            told = dict(headers).get("Content-Length") if self.command == "HEAD" else str(len(body))
            for name, value in headers:
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", told or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body if cut is None else body[: int(len(body) * cut)])
            self.close_connection = self.close_connection or cut is not None

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy = FaultProxy({**options, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"})
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


def _request(method: str, path: str, is_conditional: bool) -> Request:
    parts = urlsplit(path)
    query = parse_qs(parts.query, keep_blank_values=True)
    if "list-type" in query:
        return Request("list", query.get("prefix", [""])[0])
    kinds = {"GET": "get", "HEAD": "head", "PUT": "put", "DELETE": "delete"}
    is_delete = method == "POST" and "delete" in query
    kind = "delete" if is_delete else kinds.get(method, "other")
    return Request(kind, unquote(parts.path).split("/", 2)[-1], is_conditional)


def _asked(
    backend: str, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    connection = http.client.HTTPConnection(backend, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer: Any = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def _without(body: bytes, hides: Callable[[str], bool]) -> bytes:
    """A list without the keys that are hidden."""

    def kept(found: re.Match[bytes]) -> bytes:
        key = re.search(rb"<Key>(.*?)</Key>", found[0])
        return b"" if key and hides(key[1].decode()) else found[0]

    return re.sub(rb"<Contents>.*?</Contents>", kept, body, flags=re.DOTALL)
