"""A served owner in a process of its own that tests crowd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Crowded:
    """The process of the server, where it is, and where its log goes."""

    process: psutil.Process
    url: str
    log: Path

    def lines(self) -> list[dict[str, Any]]:
        """The log so far, which is JSON in each line."""
        return [orjson.loads(line) for line in self.log.read_bytes().splitlines()]


@contextmanager
def crowded(log: Path, descriptors: int | None = None, used_up: int = 0, **settings: Any) -> Iterator[Crowded]:
    """A server of `settings` that writes `log`, and does not outlive the context.

    It may have so many file `descriptors`, of which so many are `used_up` by other things than connections.
    """
    limit = [] if descriptors is None else [str(descriptors), str(used_up)]
    program = [sys.executable, "-m", "tests.owner.served.idle_server", orjson.dumps(settings).decode(), *limit]
    with (
        log.open("wb") as stream,
        subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=stream, text=True) as started,
    ):
        try:
            assert started.stdout is not None
            url = started.stdout.readline().strip()
            assert url, log.read_text()
            yield Crowded(psutil.Process(started.pid), url, log)
        finally:
            started.kill()
