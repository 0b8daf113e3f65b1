"""Ports for the servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this machine that nobody has now; who wants it must be quick."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
