"""Streams whose Spark Connect server is killed amid a batch: behind a new server every batch is there once."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.cluster.standalone import connect_process, environment
from tests.faults import served_stream
from tests.faults.served_stream import LAKE, POINTS, TABLE

# Servers and clients are processes of their own: the mode of the session is all the same.
pytestmark = [pytest.mark.spark, pytest.mark.classic]
_PATIENCE_S = 180.0


@pytest.mark.parametrize(
    ("kills", "more"), [(1, 1), *(pytest.param(*each, marks=pytest.mark.long) for each in ((3, 1), (12, 2)))]
)
@pytest.mark.long
def test_servers_that_are_killed_lose_and_double_nothing(tmp_path: Path, kills: int, more: int) -> None:
    chance = random.Random(kills)  # noqa: S311  (no secret)
    points = {kind: _in_turn(list(POINTS[kind]), chance) for kind in POINTS}
    counts = dict.fromkeys(POINTS, 0)
    for number in range(kills):
        kind = (TABLE, LAKE)[number % 2]
        # Of the new batches the last one is not survived.
        killed = [str(more), next(points[kind]), str(chance.randrange(more)), str(tmp_path / f"killed-{number}")]
        _kill(tmp_path, f"server-{number}", kind, counts[kind], killed)
        counts[kind] += more
    with connect_process(tmp_path / "server", "local[2]") as (address, _):
        for kind, count in ((kind, count) for kind, count in counts.items() if count):
            with _client(tmp_path, address, kind, count) as client:
                assert client.wait(_PATIENCE_S) == 0, _said(tmp_path, kind)


def _in_turn(names: list[str], chance: random.Random) -> Iterator[str]:
    """Each of them, in any order, again and again."""
    chance.shuffle(names)
    return itertools.cycle(names)


def _kill(root: Path, server: str, kind: str, count: int, killed: list[str]) -> None:
    """Let the query go on with a server, which dies amid a batch, and leave the client that it had no time."""
    with connect_process(root / server, "local[2]") as (address, process):
        with _client(root, address, kind, count, *killed) as client:
            until = time.monotonic() + _PATIENCE_S
            while process.poll() is None:
                assert client.poll() is None, _said(root, kind)
                assert time.monotonic() < until, f"the server lives: {_said(root, kind)}"
                time.sleep(0.05)
        assert process.returncode == -signal.SIGKILL
        assert Path(killed[-1]).exists()


@contextmanager
def _client(root: Path, address: str, kind: str, count: int, *killed: str) -> Iterator[subprocess.Popen[bytes]]:
    """A client, which does not outlive the block: it would ask a server that is gone for minutes."""
    command = [sys.executable, served_stream.__file__, address, kind, str(root / kind), str(count), *killed]
    variables = {**environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (root / f"{kind}.log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _said(root: Path, kind: str) -> str:
    return (root / f"{kind}.log").read_text(errors="replace")[-4000:]
