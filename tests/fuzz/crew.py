"""Workers that examine seeds, and whoever watches them: one that ends or takes too long has found something."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_COMMAND: tuple[str, ...] = (sys.executable, "-m", "tests.fuzz.worker")


class _Worker:
    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._process: subprocess.Popen[str] | None = None

    def examine(self, seed: int) -> dict[str, Any]:
        """What the process says of `seed`; one that says nothing is ended, and the next seed gets another one."""
        is_ready = self._process is not None or self._hears("")
        answer = self._hears(f"{seed}\n") if is_ready else ""
        if answer:
            found: dict[str, Any] = json.loads(answer)
            return found
        code = self._started().wait()
        self.end()
        # The watch sends 9; a crash is another signal.
        told = "it did not come to an end" if code == -9 else f"it died: {code}"
        return {"seed": seed, "done": "?", "faults": [told]}

    def _started(self) -> subprocess.Popen[str]:
        self._process = self._process or subprocess.Popen(
            _COMMAND,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self._process

    def _hears(self, told: str) -> str:
        """The next line of the process after it was told something; none where it ends or is silent for too long."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(self._patience_s, process.kill)
        watch.start()
        try:
            process.stdin.write(told)
            process.stdin.flush()
            return process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            watch.cancel()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._process = None


def examine(seeds: Iterable[int], workers: int, patience_s: float = 600) -> list[dict[str, Any]]:
    """What was found at those of `seeds` that showed a fault. `patience_s` is far beyond what a table takes."""
    crew = [_Worker(patience_s) for _ in range(workers)]
    waiting = iter(seeds)
    lock = threading.Lock()

    def work(worker: _Worker) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            with lock:
                seed = next(waiting, None)
            if seed is None:
                return found
            answer = worker.examine(seed)
            if answer["faults"]:
                found.append(answer)

    try:
        with ThreadPoolExecutor(workers) as pool:
            return [answer for found in pool.map(work, crew) for answer in found]
    finally:
        for worker in crew:
            worker.end()
