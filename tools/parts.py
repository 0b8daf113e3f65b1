"""Run parts of the suite, some at once, all to their end, and say at the end how long each took.

`parts.py A B -- C D` is `make A` and `make B`, and where both went well `make C` and `make D`. At most two run at once,
begun in the order given; what a part prints is shown when it ends, without the dots of tests that went well. A part
that fails stops no other one beside it, and makes the whole fail; what failed is said once more at the end, in short.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

AT_ONCE = 2
PATIENCE_S = 20
# A line of dots tells nothing once its part has ended.
PROGRESS = re.compile(r"[.sx]+ +\[ *\d+%\]$")
FAILURE = re.compile(r"(FAILED|ERROR) |E  +\S|make: \*\*\*")
FAILURES_SHOWN = 200


class Part:
    """One target of the Makefile, running or ended."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the part
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            ["make", "--no-print-directory", name],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )
        self.seconds = self.cpu_seconds = 0.0
        self.code: int | None = None

    def ended(self, status: int, usage: resource.struct_rusage) -> None:
        """Keep how it ended, and show what it printed."""
        self.seconds = time.monotonic() - self.begun
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.code = os.waitstatus_to_exitcode(status)
        self.process.returncode = self.code
        self.show()

    def stop(self) -> None:
        """End it with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.show()

    def lines(self) -> list[str]:
        """What it printed so far."""
        self.output.seek(0)
        return self.output.read().decode("utf-8", "replace").splitlines()

    def show(self) -> None:
        """Print its name and what it printed so far."""
        print("==== %s" % self.name)
        for line in self.lines():
            if not PROGRESS.match(line):
                print(line)
        sys.stdout.flush()


def run(names: Iterable[str]) -> list[Part]:
    """The parts of these names, all ended."""
    waiting = list(names)
    running: dict[int, Part] = {}
    done: list[Part] = []
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                part = Part(waiting.pop(0))
                running[part.process.pid] = part
                print("==== %s begins" % part.name, flush=True)
            pid, status, usage = os.wait4(-1, 0)
            if pid in running:
                part = running.pop(pid)
                part.ended(status, usage)
                done.append(part)
    except BaseException:
        for part in running.values():
            part.stop()
        raise
    return done


def report(parts: Sequence[Part], seconds: float) -> None:
    """What failed; one line for each part: wall time, processor time of what it waited for, and whether it failed."""
    for part in parts:
        if part.code:
            print("==== %s failed" % part.name)
            for line in list(filter(FAILURE.match, part.lines()))[-FAILURES_SHOWN:]:
                print(line[:300])
    print("==== minutes (of processors)")
    for part in parts:
        failed = "" if not part.code else "  FAILED (%d)" % part.code
        print("%5.1f (%5.1f)  %s%s" % (part.seconds / 60, part.cpu_seconds / 60, part.name, failed))
    print("%5.1f          in all" % (seconds / 60), flush=True)


def main(words: Sequence[str]) -> int:
    """0 where all parts ended well, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begun = time.monotonic()
    done: list[Part] = []
    for group in " ".join(words).split(" -- "):
        if not any(part.code for part in done):
            done += run(group.split())
    report(done, time.monotonic() - begun)
    return int(any(part.code for part in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
