"""What writing a log costs, against deltalake."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.harness import ROOT, Row, agree, best_fresh, command_of, interleaved, timed
from benchmarks.reading import checkpointed, tiny
from benchmarks.scales import Scale
from benchmarks.write_work import APPENDS, actions_of, committed_paths, empty_table
from slackwater.scan.snapshot import Snapshot

_MODULE = "benchmarks.write_work"
_TRANSACTION = "deltalake create_write_transaction"


class CommitsLost(Exception):
    """What landed is not what was committed: lost, doubled or foreign files."""


def commits(data: Path, scale: Scale) -> list[Row]:
    """Commits of one add, one after another in one process."""
    count = scale.single_commits
    # Where the table does not say, deltalake makes a checkpoint every 100 commits, delta-spark and we every 10.
    every_100 = {"delta.checkpointInterval": "100"}
    sides = {side: partial(one_after_another, side, data / "commits", count, {}) for side in APPENDS} | {
        f"{side} at 100": partial(one_after_another, side, data / "commits", count, every_100)
        for side in ("ours_appends", "deltalake_appends")
    }
    found = interleaved(sides, scale.log_repetitions, 1)
    least = {side: min(runs) / count for side, runs in found.items()}
    answers = (count, count)
    return [
        Row("commits", f"one of {count:,} commits of one add, on the snapshot of the one before", _TRANSACTION,
            least["ours_appends"], least["deltalake_appends"], 0.2, answers=answers),
        Row("commits", "the same, a checkpoint every 100 commits on both sides", _TRANSACTION,
            least["ours_appends at 100"], least["deltalake_appends at 100"], answers=answers),
        Row("commits", f"one of {count:,} commits of one add, opening the table each time",
            f"{_TRANSACTION}, also opening", least["ours_reopened_appends"], least["deltalake_reopened_appends"],
            answers=answers),
    ]  # fmt: skip


def checkpoint(data: Path, scale: Scale) -> list[Row]:
    """A checkpoint of a large table, from a checkpoint and commits after it."""
    path = checkpointed(data, scale)
    works = ["ours_checkpoint", "deltalake_checkpoint"]
    found = best_fresh(works, path, tiny(data), scale.log_repetitions, _MODULE)
    ours, rival = (found[work] for work in works)
    answers = (ours["answer"], rival["answer"])
    work = f"checkpoint of {answers[0][1]:,} files"
    against = "deltalake create_checkpoint"
    return [
        Row("checkpoint", f"{work}: time", against, ours["seconds"], rival["seconds"], 0.5, answers=answers),
        Row("checkpoint", "the same, and opening the table", f"{against}, also opening", ours["with_opening_seconds"],
            rival["with_opening_seconds"], answers=answers),
        Row("checkpoint", f"{work}: peak memory", against, ours["peak_mib"], rival["peak_mib"], 0.5, "MiB", answers),
    ]  # fmt: skip


def writers(data: Path, scale: Scale) -> list[Row]:
    """Processes that append to one table at the same time."""
    count = scale.writers * scale.appends
    sides = {
        side: partial(_at_once, side, data / "writers", scale)
        for side in ("ours_appends", "deltalake_appends")
    }  # fmt: skip
    # Each run starts its processes anew, so none is a warm-up for the next.
    found = interleaved(sides, (scale.log_repetitions + 1) // 2, 0)
    ours, rival = (min(run[0] for run in runs) for runs in found.values())
    landed = {side: [run[1] for run in runs] for side, runs in found.items()}
    agree(count, *landed["ours_appends"])
    return [
        Row(
            "writers",
            f"{scale.writers} processes × {scale.appends} appends on one table",
            "deltalake, same",
            ours,
            rival,
            1.0,
            answers=(count, min(landed["deltalake_appends"])),
            note=f"ours: all {count} landed once in every run; deltalake: {landed['deltalake_appends']} landed once",
        )
    ]


WRITING_CASES = {"commits": commits, "checkpoint": checkpoint, "writers": writers}
"""The cases of writing that need no Spark, by name."""


def require_all(root: Path, expected: list[str]) -> None:
    """Raise CommitsLost unless the commits add each of `expected` once, one each, and the newest version lists them."""
    snapshot = Snapshot.load(root)
    listed = snapshot.files(columns=["path"])["path"].to_pylist()
    if not sorted(listed) == sorted(committed_paths(root)) == sorted(expected) or snapshot.version != len(expected):
        raise CommitsLost(
            f"{root}: {len(expected)} commits were made, version {snapshot.version} lists {len(listed)} files, "
            f"{len(set(listed) & set(expected))} of them the right ones"
        )


def one_after_another(side: str, root: Path, count: int, configuration: dict[str, str]) -> float:
    """Seconds for `count` commits to a new table."""
    actions = actions_of(0, count)
    append = APPENDS[side](str(empty_table(root, configuration)))

    def work() -> None:
        for action in actions:
            append(action)

    seconds, _ = timed(work)
    require_all(root, [action["path"] for action in actions])
    shutil.rmtree(root)
    return seconds


def _at_once(side: str, root: Path, scale: Scale) -> tuple[float, int]:
    return at_once(side, root, scale.writers, scale.appends)


def at_once(side: str, root: Path, writers: int, appends: int) -> tuple[float, int]:
    """Seconds until every process has made its commits to a new table, and how many files landed exactly once.

    Raises CommitsLost where ours are not all there, once each.
    """
    empty_table(root)
    seconds, said = race([command_of(_MODULE, side, root, writer, appends) for writer in range(writers)])
    if said != [str(appends)] * writers:
        raise RuntimeError(f"every writer was to say {appends}: {said}")
    expected = paths_of(writers, appends)
    if side.startswith("ours"):
        require_all(root, expected)
    found = Counter(committed_paths(root))
    shutil.rmtree(root)
    return seconds, sum(found[path] == 1 for path in expected)


def paths_of(writers: int, appends: int) -> list[str]:
    """The paths that so many writers add."""
    return [action["path"] for writer in range(writers) for action in actions_of(writer, appends)]


def race(commands: list[list[str]]) -> tuple[float, list[str]]:
    """Seconds until processes that begin together are done, and the line that each says then."""
    with started(commands) as processes:
        for process in processes:
            _expect(process, "ready")
        return timed(partial(_go, processes))


@contextmanager
def started(commands: list[list[str]]) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _go(processes: list[subprocess.Popen[str]]) -> list[str]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [_said(process) for process in processes]


def _expect(process: subprocess.Popen[str], line: str) -> None:
    found = _said(process)
    if found != line:
        raise RuntimeError(f"a writer was to say {line!r} and said {found!r}: {process.args!r}")


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
