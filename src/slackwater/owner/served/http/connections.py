"""Connections of a server, limited in total and per address. Idle connections are closed for new ones.

A connection is idle before its first request, and again after each response. Without capacity, the server closes the
connection with the longest idle time. If none is idle, it closes the new connection. A client without requests
therefore never displaces a client with requests, from any number of addresses. Descriptors are counted from their
acceptance on, including TLS handshakes.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from collections import Counter
from typing import Any

from slackwater.owner.served.settings import ServedSettings

_MOST_ENDING = 16
_IPV6_NETWORK_BITS = 64
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logging.getLogger(__name__)


class Connections:
    """Open connections of one event loop. Not thread-safe."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._open: dict[int, Accepted] = {}
        # By descriptor, longest idle time first.
        self._idle: dict[int, Accepted] = {}
        self._ending: set[int] = set()
        self._of_address: Counter[str] = Counter()

    @classmethod
    def of(cls, settings: ServedSettings) -> Connections:
        """Return the connections for `settings`, limited to half of the process's descriptors."""
        most, descriptors = settings.max_connections, _most_descriptors()
        if descriptors is not None and descriptors // 2 < most:
            most = max(1, descriptors // 2)
            _log.warning("of %d file descriptors, %d are for connections. Raise the limit for more", descriptors, most)
        return cls(most, min(settings.max_connections_per_address, max(1, most // 2)))

    def admit(self, accepted: Accepted) -> bool:
        """Count `accepted` if there is capacity, closing an idle connection if necessary. Return whether admitted."""
        if self._of_address[accepted.address] >= self._most_of_address and not self._end_one(accepted.address):
            _log.warning("a connection was refused: %d connections from its address are busy", self._most_of_address)
            return False
        if len(self._open) - len(self._ending) >= self._most and not self._end_one():
            _log.warning("a connection was refused: all %d connections are busy", self._most)
            return False
        if len(self._open) >= self._most + _MOST_ENDING:
            _log.warning("a connection was refused: %d idle connections are still closing", len(self._ending))
            return False
        descriptor = accepted.fileno()
        self._open[descriptor] = self._idle[descriptor] = accepted
        self._of_address[accepted.address] += 1
        return True

    def make_room(self) -> None:
        """Close the connection with the longest idle time, because descriptors are exhausted."""
        self._end_one()

    def set_busy(self, descriptor: int) -> None:
        """Mark a connection busy after the head of a request."""
        self._idle.pop(descriptor, None)

    def set_idle(self, descriptor: int) -> None:
        """Mark a connection idle after its response."""
        if descriptor in self._open and descriptor not in self._ending:
            self._idle.setdefault(descriptor, self._open[descriptor])

    def forget(self, accepted: Accepted) -> None:
        """Remove `accepted` on close."""
        descriptor = accepted.fileno()
        if self._open.get(descriptor) is not accepted:
            return
        del self._open[descriptor]
        self._idle.pop(descriptor, None)
        if descriptor in self._ending:
            self._ending.remove(descriptor)
        else:
            self._uncount(accepted.address)

    def _end_one(self, address: str | None = None) -> bool:
        """Close the longest idle connection, of `address` or any. Return False if none is idle."""
        found = next((held for held in self._idle.values() if address is None or held.address == address), None)
        if found is None:
            return False
        _log.warning("an idle connection was closed to free its place for a new one")
        descriptor = found.fileno()
        del self._idle[descriptor]
        self._ending.add(descriptor)
        self._uncount(found.address)
        # The event loop reads the end of the stream and closes the socket.
        found.end()
        return True

    def _uncount(self, address: str) -> None:
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


class Accepted(socket.socket):
    """An accepted connection, counted until its close."""

    def __init__(self, found: socket.socket, address: str, connections: Connections) -> None:
        super().__init__(found.family, found.type, found.proto, fileno=found.detach())
        self.address = address
        self._connections = connections

    def end(self) -> None:
        """Shut down both directions."""
        try:
            self.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("a connection had ended already")

    def close(self) -> None:
        """Close the connection. May be called again."""
        if self.fileno() != -1:
            self._connections.forget(self)
        super().close()


class AdmittingListener(socket.socket):
    """A listening socket that accepts connections admitted by `connections`, and closes other connections.

    If no descriptor is left, an idle connection is closed. A reserve descriptor then serves to accept and close the
    waiting client. Otherwise the event loop would find the socket ready during the whole wait.
    """

    connections: Connections | None = None

    def __init__(self, *kind: int) -> None:
        super().__init__(*kind)
        self._is_exhausted = False
        self._aside: int | None = None
        self._set_aside()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection. Raises BlockingIOError if there is none, or if not admitted.

        Raises OSError once if no descriptors are left at all. asyncio then retries after a second.
        """
        if self._is_exhausted:
            # asyncio continues to accept in the same round after the error.
            self._is_exhausted = False
            raise BlockingIOError
        if self._aside is None:
            self._set_aside()
        try:
            found, address = super().accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            _log.warning("a connection was refused: no file descriptors are left (%s)", error.strerror)
            if self.connections is not None:
                self.connections.make_room()
            self._refuse_one(error)
            raise BlockingIOError from error
        if self.connections is None:
            return found, address
        accepted = Accepted(found, _network(address), self.connections)
        if not self.connections.admit(accepted):
            accepted.close()
            raise BlockingIOError
        return accepted, address

    def close(self) -> None:
        """Close the socket. May be called again."""
        super().close()
        self._let_go()

    def _refuse_one(self, error: OSError) -> None:
        """Accept and close the first waiting client. Raises `error` if a thread took the reserve descriptor."""
        self._let_go()
        try:
            super().accept()[0].close()
        except OSError as again:
            if again.errno in _EXHAUSTED:
                self._is_exhausted = True
                raise error from again
            raise
        finally:
            self._set_aside()

    def _set_aside(self) -> None:
        try:
            self._aside = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            _log.warning("no file descriptor can be reserved")

    def _let_go(self) -> None:
        if self._aside is not None:
            os.close(self._aside)
            self._aside = None


def _network(address: Any) -> str:
    """Return the part of an address for limits: an IPv4 address, or the network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address[0].partition("%")[0])
    except (ValueError, IndexError, TypeError, AttributeError):
        return ""
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_NETWORK_BITS), strict=False))


def _most_descriptors() -> int | None:
    """Return the maximum of descriptors for this process, None for no limit."""
    try:
        import resource
    except ImportError:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most
