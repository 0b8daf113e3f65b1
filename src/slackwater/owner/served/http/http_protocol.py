"""HTTP protocol of the server: uvicorn's h11 protocol, with timeouts for slow clients.

uvicorn closes connections idle between requests. This protocol also closes connections without a first request, with an
incomplete request after a response, and with unread responses. Routes have their own timeout for the body of a request
in progress.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from slackwater.owner.served.http.connections import Connections
from slackwater.owner.served.settings import ServedSettings

_NONE = -1


class BoundedProtocol(H11Protocol):
    """Protocol of one connection. `bounded_protocol` creates the classes."""

    limits: ServedSettings
    seen: Connections
    _awaited: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _descriptor = _NONE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()
        self._end_if_unread()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._end_if_unread()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            _cancel(self._unread)
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        # The system soon reuses the descriptor for another connection.
        self._descriptor = _NONE
        _cancel(self._awaited)
        _cancel(self._unread)
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Update the timer: a client has limited time for its request, a response has none."""
        if self._descriptor == _NONE:
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered:
            self.seen.set_idle(self._descriptor)
        else:
            self.seen.set_busy(self._descriptor)
        if not is_answered or self._is_between_requests():
            _cancel(self._awaited)
            self._awaited = None
        elif self._awaited is None:
            # Partial data does not extend the deadline.
            self._awaited = self.loop.call_later(self._time_left(), self.transport.abort)

    def _time_left(self) -> float:
        return self.limits.body_timeout_s if self.conn.their_state is h11.SEND_BODY else self.limits.head_timeout_s

    def _is_between_requests(self) -> bool:
        """Return whether uvicorn's own timeout is active."""
        has_begun = self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])
        return self.timeout_keep_alive_task is not None and not has_begun

    def _end_if_unread(self) -> None:
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._wait_for_reader()

    def _wait_for_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.send_timeout_s, self.transport.abort)


def bounded_protocol(settings: ServedSettings, connections: Connections) -> type[BoundedProtocol]:
    """Return the protocol class for these `settings`. It reports busy and idle connections to `connections`."""
    return type("ServedProtocol", (BoundedProtocol,), {"limits": settings, "seen": connections})


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
