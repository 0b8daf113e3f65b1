"""The connections of a server: so many in all and of each address, and those that ask nothing make room for others.

A connection is idle until its first request has come, and again once it is answered. Where there is no room, the one
that has been idle for longest is ended; where none is idle, the new one is. So a client that only connects, from any
number of addresses, takes no place from a client that asks. Descriptors are counted from when they are accepted, TLS
handshakes included.
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
    """What is connected. Of one event loop: no method is called from several threads at once."""

    def __init__(self, most: int, most_of_address: int) -> None:
        self._most = most
        self._most_of_address = most_of_address
        self._open: dict[int, Accepted] = {}
        # By descriptor; the longest idle one first.
        self._idle: dict[int, Accepted] = {}
        self._ending: set[int] = set()
        self._of_address: Counter[str] = Counter()

    @classmethod
    def of(cls, settings: ServedSettings) -> Connections:
        """Those that `settings` allow; in all at most half of the descriptors that this process may have."""
        most, descriptors = settings.max_connections, _most_descriptors()
        if descriptors is not None and descriptors // 2 < most:
            most = max(1, descriptors // 2)
            _log.warning("of %d file descriptors %d are for connections: raise the limit for more", descriptors, most)
        return cls(most, min(settings.max_connections_per_address, max(1, most // 2)))

    def admit(self, accepted: Accepted) -> bool:
        """Count `accepted`, where there is or can be made room for it."""
        if self._of_address[accepted.address] >= self._most_of_address and not self._end_one(accepted.address):
            _log.warning("a connection was refused: %d of its address are busy", self._most_of_address)
            return False
        if len(self._open) - len(self._ending) >= self._most and not self._end_one():
            _log.warning("a connection was refused: all %d are busy", self._most)
            return False
        if len(self._open) >= self._most + _MOST_ENDING:
            _log.warning("a connection was refused: %d that were idle are still being ended", len(self._ending))
            return False
        descriptor = accepted.fileno()
        self._open[descriptor] = self._idle[descriptor] = accepted
        self._of_address[accepted.address] += 1
        return True

    def make_room(self) -> None:
        """Descriptors are used up, by whatever: end the connection that has been idle for longest."""
        self._end_one()

    def set_busy(self, descriptor: int) -> None:
        """The head of a request has come."""
        self._idle.pop(descriptor, None)

    def set_idle(self, descriptor: int) -> None:
        """The request is answered."""
        if descriptor in self._open and descriptor not in self._ending:
            self._idle.setdefault(descriptor, self._open[descriptor])

    def forget(self, accepted: Accepted) -> None:
        """`accepted` is being closed."""
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
        """End the connection that has been idle for longest, of `address` or any; False where none is idle."""
        found = next((held for held in self._idle.values() if address is None or held.address == address), None)
        if found is None:
            return False
        _log.warning("a connection that was idle was ended: others need its place")
        descriptor = found.fileno()
        del self._idle[descriptor]
        self._ending.add(descriptor)
        self._uncount(found.address)
        # The event loop reads its end, and closes it.
        found.end()
        return True

    def _uncount(self, address: str) -> None:
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


class Accepted(socket.socket):
    """An accepted connection, which is counted until it is closed."""

    def __init__(self, found: socket.socket, address: str, connections: Connections) -> None:
        super().__init__(found.family, found.type, found.proto, fileno=found.detach())
        self.address = address
        self._connections = connections

    def end(self) -> None:
        """Let it end for both sides."""
        try:
            self.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("a connection had ended already")

    def close(self) -> None:
        """Close it, once or again."""
        if self.fileno() != -1:
            self._connections.forget(self)
        super().close()


class AdmittingListener(socket.socket):
    """A listening socket that accepts what `connections` admit; it closes the others at once.

    Where no descriptor is left, an idle connection is ended, and one that was set aside serves to accept and close
    the client that waits: else an event loop would find the socket ready for as long as it waits.
    """

    connections: Connections | None = None

    def __init__(self, *kind: int) -> None:
        super().__init__(*kind)
        self._is_exhausted = False
        self._aside: int | None = None
        self._set_aside()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. Raises BlockingIOError where there is none, or one that was not admitted.

        Raises OSError once where no descriptors are left for anything: asyncio then tries again a second later.
        """
        if self._is_exhausted:
            # asyncio goes on accepting in the round in which it failed.
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
        """Close it, once or again."""
        super().close()
        self._let_go()

    def _refuse_one(self, error: OSError) -> None:
        """Close the client that waits first. Raises `error` where a thread takes the descriptor that was set aside."""
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
            _log.warning("no file descriptor can be set aside")

    def _let_go(self) -> None:
        if self._aside is not None:
            os.close(self._aside)
            self._aside = None


def _network(address: Any) -> str:
    """What of an address counts as one: all of an IPv4 address, the network of an IPv6 one, which has many."""
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
    """How many descriptors this process may have; None where that is not limited."""
    try:
        import resource
    except ImportError:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most
