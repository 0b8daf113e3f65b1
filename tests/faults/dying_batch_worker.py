"""What writes the micro-batches of a query through Spark Connect, killed on the way: it runs in a Python of the server.

The client lives on and is told of a query that failed; Spark starts a new Python for the next one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from slackwater.spark.streams import multi_table_sink, writer
from slackwater.spark.streams.connect_foreach_batch import remote_batch_writer


@contextmanager
def dying_batches(
    owner: Any, name: str, part: str, afterwards: bool, survived: int, server_mark: Path | None = None
) -> Iterator[None]:
    """Queries that are started in the block die as `die_at` of the dying writer says, by SIGKILL of their Python.

    With `server_mark` it is the server that is killed, once that file is there.
    """
    place = owner.__name__ if not hasattr(owner, "__qualname__") else f"{owner.__module__}:{owner.__qualname__}"
    mark = str(server_mark) if server_mark else None

    def travels(made: Callable[..., Any]) -> Any:
        return remote_batch_writer(_dying(made, place, name, part, afterwards, survived, mark, int(signal.SIGKILL)))

    with ExitStack() as stack:
        for module in (writer, multi_table_sink):
            stack.enter_context(patch.object(module, "remote_batch_writer", travels))
        yield


def _dying(
    made: Callable[..., Any],
    place: str,
    name: str,
    part: str,
    afterwards: bool,
    survived: int,
    server_mark: str | None,
    sigkill: int,
) -> Callable[..., Any]:
    """What makes the writer in the server's Python, and lets a call there be its last; it travels by value."""

    def made_to_die(spark: Any) -> Any:
        import os
        from importlib import import_module
        from pathlib import Path

        module, _, inner = place.partition(":")
        owner = getattr(import_module(module), inner) if inner else import_module(module)
        original = getattr(owner, name)
        left = survived

        def die() -> None:
            if server_mark is not None:
                pid = os.getpid()
                while "java" not in Path(f"/proc/{pid}/cmdline").read_text():
                    pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                Path(server_mark).touch()
                os.kill(pid, sigkill)
            os.kill(os.getpid(), sigkill)

        def texts(arguments: Any) -> str:
            paths = [each for each in arguments if isinstance(each, (str, os.PathLike))]
            lists = [texts(each) for each in arguments if isinstance(each, list)]
            return " ".join([*(os.fspath(path) for path in paths), *lists])

        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            if part not in texts(arguments):
                return original(*arguments, **more)
            left -= 1
            if left >= 0:
                return original(*arguments, **more)
            if afterwards:
                original(*arguments, **more)
            die()
            return None

        setattr(owner, name, call)
        return made(spark)

    return made_to_die
