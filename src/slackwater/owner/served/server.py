"""Server of a commit owner. On shutdown, it completes requests and backfills ratified commits."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.served.access.audit_trail import AuditTrail
from slackwater.owner.served.app import create_app
from slackwater.owner.served.client.addresses import is_loopback
from slackwater.owner.served.http.connections import AdmittingListener, Connections
from slackwater.owner.served.http.http_protocol import bounded_protocol
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens

if TYPE_CHECKING:
    from slackwater.owner.served.access.identity_provider import IdentityProvider

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080

_GREATEST_PORT = 65535
_KEEP_ALIVE_S = 60
# Maximum time for requests to complete during shutdown.
_GRACE_S = 60
_BACKLOG = 2048
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Binding:
    """Address of the server. For `port` 0 the system chooses a port. With a certificate and key (PEM) it uses TLS."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    certfile: str | None = None
    keyfile: str | None = None

    def url(self, port: int | None = None) -> str:
        """Return the URL of the server, with `port` if the system chose another port."""
        scheme = "http" if self.certfile is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port if port is None else port}"


class OwnerServer:
    """A server. It listens from its creation on, and responds during `run`."""

    def __init__(
        self,
        owner: CommitOwner,
        tokens: Tokens | None,
        binding: Binding | None = None,
        settings: ServedSettings | None = None,
        provider: IdentityProvider | None = None,
        audit: AuditTrail | None = None,
    ) -> None:
        """Create the server. `run` closes `audit` and `owner` at its end.

        The server accepts tokens of `provider` beside `tokens`.

        Raises InvalidArgument if the address is unavailable, if the certificate is unreadable, or without `tokens` for
        a host reachable from other machines.
        """
        binding = binding or Binding()
        if tokens is None and not is_loopback(binding.host):
            raise InvalidArgument(
                f"without tokens, every client that reaches {binding.host} has all permissions. Bind to 127.0.0.1, "
                "or use tokens"
            )
        _check_certificate(binding)
        self._owner = owner
        self._audit = audit
        chosen = settings or ServedSettings()
        connections = Connections.of(chosen)
        self._socket = _listening(binding)
        self._socket.connections = connections
        config = uvicorn.Config(
            create_app(owner, tokens, chosen, provider, audit),
            # Other event loops and protocols would bypass our limits.
            loop="asyncio",
            http=bounded_protocol(chosen, connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
            backlog=_BACKLOG,
            ssl_certfile=binding.certfile,
            ssl_keyfile=binding.keyfile,
        )
        self._server = uvicorn.Server(config)
        self.url = binding.url(self._socket.getsockname()[1])

    def run(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Serve until `stop`, SIGTERM or SIGINT. Then complete the requests, and close the owner.

        Calls `on_ready` with the URL before the first request.
        """
        with self._stopped_by_signals():
            try:
                if on_ready is not None:
                    on_ready(self.url)
                self._server.run(sockets=[self._socket])
            finally:
                self._socket.close()
                if self._audit is not None:
                    self._audit.close()
                _log.info("closing the owner")
                self._owner.close()

    def stop(self) -> None:
        """Stop `run` from any thread."""
        self._server.should_exit = True

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """Stop the server on signals, and suppress the signals which uvicorn raises again.

        The owner must still be closed after the signal.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listening(binding: Binding) -> AdmittingListener:
    if not 0 <= binding.port <= _GREATEST_PORT:
        raise InvalidArgument(f"a port is a number from 0 to {_GREATEST_PORT}, found {binding.port}")
    try:
        found = socket.getaddrinfo(binding.host, binding.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = found[0]
        # The protocol is explicit, because only then asyncio disables Nagle's algorithm, which would delay every
        # response.
        listening = AdmittingListener(family, kind, socket.IPPROTO_TCP)
    except OSError as error:
        raise _cannot_listen(binding, error) from error
    try:
        if os.name == "posix":
            # Makes the port available immediately after a restart. On other systems the option would share the port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _cannot_listen(binding, error) from error
    return listening


def _cannot_listen(binding: Binding, error: Exception) -> InvalidArgument:
    return InvalidArgument(f"cannot listen on {binding.host} port {binding.port}: {error}")


def _check_certificate(binding: Binding) -> None:
    if (binding.certfile is None) != (binding.keyfile is None):
        raise InvalidArgument("TLS needs both a certificate and its key. Pass both or neither")
    if binding.certfile is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(binding.certfile, binding.keyfile)
    except OSError as error:
        raise InvalidArgument(
            f"the certificate {binding.certfile} with the key {binding.keyfile} cannot be used: {error}"
        ) from error
