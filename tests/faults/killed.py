"""Processes that die at a point of their work, with SIGKILL and without a word."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from typing import Any

from tests.faults.dying_owner import processes

_PATIENCE_S = 120.0


def killed(work: Callable[..., None], *arguments: Any) -> None:
    """Let another process do `work`, in the midst of which it is killed; it prints nothing."""
    with tempfile.NamedTemporaryFile() as printed:
        process = processes.Process(target=_printing_to, args=(printed.name, work, arguments))
        process.start()
        process.join(_PATIENCE_S)
        assert (process.exitcode, printed.read()) == (-signal.SIGKILL, b"")


def _printing_to(path: str, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    work(*arguments)
