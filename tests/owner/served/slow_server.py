"""A served owner whose commits wait until a line comes on stdin: a process that tests tell to stop in the middle."""

from __future__ import annotations

import sys

from slackwater.owner.served.http.access_log import log_to
from slackwater.owner.served.server import Binding, OwnerServer
from tests.owner.served.memory_owner import MemoryOwner


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class SlowOwner(MemoryOwner):
    def __init__(self) -> None:
        super().__init__(self._wait)

    def _wait(self) -> None:
        say("committing")
        sys.stdin.readline()

    def close(self) -> None:
        backlog = [table.ratified_version - table.backfilled_version for table in self.tables()]
        super().close()
        say(f"closed with {backlog} to backfill")


if __name__ == "__main__":
    log_to()
    OwnerServer(SlowOwner(), None, Binding(port=0)).run(say)
    say("ended")
