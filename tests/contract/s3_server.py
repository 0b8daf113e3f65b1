"""An S3 server in a process of its own, and one that answers every request the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BUCKET = "tables"

# One request at a time: the server looks a key up and then writes it, which only then is the one step it is on S3.
_SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def s3_server(page: int = 1_000, bucket: str = BUCKET) -> Iterator[dict[str, str]]:
    """Start a server with a bucket, and yield its storage options. `page`: objects in one response of a listing."""
    environment = {**os.environ, "MOTO_S3_DEFAULT_MAX_KEYS": str(page)}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")  # noqa: S310 - our own server
            with urllib.request.urlopen(request) as answer:  # noqa: S310
                assert answer.status == 200
            yield _options(endpoint)
        finally:
            server.terminate()


@contextlib.contextmanager
def answering(status: int, body: str = "") -> Iterator[dict[str, str]]:
    """The storage options of a server that answers every request with `status` and `body`."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield _options(f"http://127.0.0.1:{server.server_address[1]}")
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def conflicting(
    stores: Callable[[bytes], bytes | None], conflicts: int = 1
) -> Iterator[tuple[dict[str, str], dict[str, bytes]]]:
    """The storage options of a server that answers 409 to the first `conflicts` conditional puts of each name.

    It stores what `stores` makes of the first body. The objects, by their paths, are the second part.
    """
    objects: dict[str, bytes] = {}
    seen: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("If-None-Match") == "*":
                seen[self.path] += 1
                if seen[self.path] <= conflicts:
                    if seen[self.path] == 1 and (found := stores(body)) is not None:
                        objects[self.path] = found
                    self._answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>")
                    return
                if self.path in objects:
                    self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                    return
            objects[self.path] = body
            self._answer(200)

        def do_GET(self) -> None:
            found = objects.get(self.path)
            self._answer(404 if found is None else 200, found or b"")

        do_HEAD = do_GET  # noqa: N815 - the name that the server looks for

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            for name, value in (
                ("Content-Length", str(len(body))),
                ("ETag", '"e"'),
                ("Last-Modified", "Fri, 27 Nov 2026 00:00:00 GMT"),
            ):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield _options(f"http://127.0.0.1:{server.server_address[1]}"), objects
        finally:
            server.shutdown()
            thread.join()


def _options(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "aws_region": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "aws_secret_access_key": "test",
        "AWS_ALLOW_HTTP": "true",
    }
