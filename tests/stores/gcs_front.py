"""What fake-gcs-server lacks of Google's XML API: it takes objects by the JSON API alone, obstore puts them by XML.

A put becomes the upload that Google documents as the same: its `x-goog-if-generation-match` is `ifGenerationMatch`
there, which the server looks at in one step with the upload. Parts of an upload wait here until they are joined. Of a
listing that is to begin after a name the server tells the objects before it too: they are left out here.
Source: Cloud Storage's "Request preconditions", XML API "Upload an object", "Multipart uploads".
"""

from __future__ import annotations

import contextlib
import html
import http.client
import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

Answer = tuple[int, Mapping[str, str], bytes]
_PRECONDITION = "x-goog-if-generation-match"
_PASSED_BACK = ("content-type", "content-range", "etag", "last-modified", "x-goog-generation")
_OF_THIS_HOP = frozenset({"host", "connection", "keep-alive", "content-length"})
_CONTENTS = re.compile(rb"<Contents>(?:(?!</Contents>).)*?<Key>(?P<key>[^<]*)</Key>.*?</Contents>", re.DOTALL)
_ETAG = {"etag": '"put"', "x-goog-generation": "1"}


@contextlib.contextmanager
def xml_front(backend: str) -> Iterator[str]:
    """The endpoint of a server that speaks XML too, before the one at the endpoint `backend`."""
    netloc = urlsplit(backend).netloc
    parts: dict[str, dict[int, bytes]] = {}
    uploads = itertools.count()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, headers, found = self._answer_of(body)
            self.send_response_only(status)
            for name in _PASSED_BACK:
                if name in headers:
                    self.send_header(name, headers[name])
            length = headers.get("content-length") if self.command == "HEAD" else str(len(found))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found)

        def _answer_of(self, body: bytes) -> Answer:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
            bucket, _, key = unquote(url.path).lstrip("/").partition("/")
            if self.command == "POST" and "uploads" in query:
                upload = str(next(uploads))
                parts[upload] = {}
                told = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                return 200, {}, told.encode()
            if self.command == "PUT" and "partNumber" in query:
                parts[query["uploadId"]][int(query["partNumber"])] = body
                return 200, _ETAG, b""
            if self.command == "POST" and "uploadId" in query:
                whole = b"".join(part for _, part in sorted(parts.pop(query["uploadId"]).items()))
                status, headers, found = self._uploaded(bucket, key, whole)
                told = "<CompleteMultipartUploadResult><ETag>put</ETag></CompleteMultipartUploadResult>"
                return (status, headers, told.encode()) if status == http.HTTPStatus.OK else (status, headers, found)
            if self.command == "PUT" and key:
                if source := self.headers.get("x-goog-copy-source"):
                    status, headers, body = _asked(netloc, "GET", "/" + source.lstrip("/"), {}, b"")
                    if status != http.HTTPStatus.OK:
                        return status, headers, body
                return self._uploaded(bucket, key, body)
            passed = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THIS_HOP}
            status, headers, found = _asked(netloc, self.command, self.path, passed, body)
            return status, headers, _listed_after(query["start-after"], found) if "start-after" in query else found

        def _uploaded(self, bucket: str, key: str, body: bytes) -> Answer:
            query = {"uploadType": "media", "name": key}
            if (generation := self.headers.get(_PRECONDITION)) is not None:
                query["ifGenerationMatch"] = generation
            path = f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query)}"
            status, headers, found = _asked(netloc, "POST", path, {"Content-Type": "application/octet-stream"}, body)
            return (status, _ETAG, b"") if status == http.HTTPStatus.OK else (status, headers, found)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _pass  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _listed_after(start: str, listing: bytes) -> bytes:
    """The listing without the objects whose names do not come after `start`."""
    return _CONTENTS.sub(lambda found: found[0] if html.unescape(found["key"].decode()) > start else b"", listing)


def _asked(netloc: str, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    connection = http.client.HTTPConnection(netloc, timeout=60)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()
