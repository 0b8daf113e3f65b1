"""HTTP connections to one server: its URL, token, trusted certificates and a pool of connections."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping

import httpx

from slackwater.errors import InvalidArgument
from slackwater.owner.served.client.addresses import checked_url, is_in_the_clear, is_loopback

_CONNECT_S = 5.0
_LIMITS = httpx.Limits(max_connections=128, max_keepalive_connections=64, keepalive_expiry=20.0)
_TOKEN = re.compile(r"[\x21-\x7e]+")


class HttpSession:
    """Sends requests with a JSON body to the server at `url`. Thread-safe, with one connection pool per process."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        client: httpx.Client | None = None,
        *,
        allow_http: bool = False,
        ca_file: str | None = None,
    ) -> None:
        """Create the session. No request is sent. The caller closes a provided `client`.

        `ca_file` has trusted certificates, instead of SSL_CERT_FILE and SSL_CERT_DIR, or of the system.

        Raises InvalidArgument if the URL is not http or https, or has a user or a query. Also raises InvalidArgument if
        the token would be sent unencrypted to another machine without `allow_http`.
        """
        self.url = checked_url(url)
        """URL of the server, without a slash at its end."""
        if token is not None and not allow_http and is_in_the_clear(self.url):
            raise InvalidArgument(
                f"the token would travel to {self.url} unencrypted. Use https, or allow_http=True in a network "
                "without eavesdroppers"
            )
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token is not None:
            if not _TOKEN.fullmatch(token):
                raise InvalidArgument("the token is empty or contains characters that tokens cannot have")
            self._headers["Authorization"] = f"Bearer {token}"
        self._given = client
        self._ca_file = ca_file
        self._own = None if client is not None else self._pool()
        self._pid = os.getpid()

    def send(
        self, method: str, path: str, query: Mapping[str, str] | None, content: bytes | None, timeout_s: float
    ) -> httpx.Response:
        """Send one request, and return the response for any status. Raises the errors of httpx."""
        client = self._client()
        request = client.build_request(
            method,
            self.url + path,
            params=query,
            content=content,
            headers=self._headers,
            timeout=httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        )
        # Without redirects, so that the token goes to this server only.
        return client.send(request, auth=None, follow_redirects=False)

    def close(self) -> None:
        """Close the connections."""
        if self._own is not None:
            self._own.close()

    def _client(self) -> httpx.Client:
        if self._given is not None:
            return self._given
        if self._own is None or self._pid != os.getpid():
            # A new pool after a fork, because both processes would read responses from the same connections.
            self._own, self._pid = self._pool(), os.getpid()
        return self._own

    def _pool(self) -> httpx.Client:
        verify = _trusted(self._ca_file)
        # Local connections bypass the proxy of the environment.
        trust_env = not is_loopback(httpx.URL(self.url).host)
        return httpx.Client(verify=verify, limits=_LIMITS, follow_redirects=False, trust_env=trust_env)


def _trusted(ca_file: str | None) -> ssl.SSLContext | bool:
    """Return the trusted certificates: `ca_file`, else SSL_CERT_FILE and SSL_CERT_DIR, else the default of httpx."""
    directory = None if ca_file else os.environ.get("SSL_CERT_DIR") or None
    named = ca_file or os.environ.get("SSL_CERT_FILE") or None
    if named is None and directory is None:
        return True
    try:
        return ssl.create_default_context(cafile=named, capath=directory)
    except OSError as error:
        raise InvalidArgument(f"the certificates in {named or directory} cannot be read: {error}") from error
