"""What logs in S3 cost, without Spark: opening a large one, and commits over a slow network."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Row, agree, best_fresh, interleaved, middle, timed
from benchmarks.reading import checkpointed, tiny
from benchmarks.scales import Scale
from benchmarks.stores.bucket import Bucket
from slackwater import AddFile, Transaction
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.log_maintenance import checkpoint
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.proxy import Fault, FaultProxy, Request, fault_proxy

_DELAY_S = 0.05
_SCHEMA = StructType((StructField("id", LONG),))


def open_large(data: Path, scale: Scale) -> list[Row]:
    """Open and list the live files: a large checkpoint, which this package has written."""
    table, small = checkpointed(data, scale), tiny(data)
    with s3_server() as options, _environment(options):
        bucket = Bucket({key.lower(): value for key, value in options.items()})
        for place in (table, small):
            bucket.upload(place, place.name)
            newest = Snapshot.load(bucket.url(place.name))
            checkpoint(newest, newest.timestamp_ms)
        works = ["ours_paths", "deltalake_paths"]
        whole, warm_up = (bucket.url(place.name, "s3") for place in (table, small))
        ours, rival = best_fresh(works, whole, warm_up, scale.log_repetitions).values()
    work = f"open and list paths in S3: a checkpoint of about {scale.checkpoint_files:,} files"
    answers = (ours["answer"], rival["answer"])
    return [
        Row("store-open", f"{work}: time", "deltalake", ours["seconds"], rival["seconds"], 0.5, answers=answers),
        Row(
            "store-open", f"{work}: peak memory", "deltalake", ours["peak_mib"], rival["peak_mib"],
            unit="MiB", answers=answers,
        ),
    ]  # fmt: skip


def commit_slowly(data: Path, scale: Scale) -> list[Row]:
    """A commit where each request takes longer, against as many requests as wait for each other."""
    del data
    with s3_server() as options, fault_proxy(options) as proxy:
        sides = {"slow": lambda: _append(proxy, _DELAY_S), "quick": lambda: _append(proxy, 0.0)}
        found = interleaved(sides, 2 * scale.log_repetitions, 1)
    slow_s, quick_s = (middle([commit.seconds for commit in found[side]]) for side in sides)
    versions = tuple((agree(*(commit.version for commit in found[side])),) for side in sides)
    agree(*versions)
    count = round(middle([commit.round_trips for commit in found["slow"]]))
    return [
        Row(
            "store-commit", "append, with each request 50 ms slower", f"without, and {count} round trips of 50 ms",
            slow_s, quick_s + count * _DELAY_S, 1.2, answers=versions,
        )
    ]  # fmt: skip


STORE_LOG_CASES = {"store-open": open_large, "store-commit": commit_slowly}
"""The cases of logs in S3, by name."""


@dataclass(frozen=True)
class _Commit:
    seconds: float
    version: int
    round_trips: int


def _append(proxy: FaultProxy, delay_s: float) -> _Commit:
    """The third commit of a table of its own, with each request so much slower."""
    url = f"s3://{BUCKET}/{uuid.uuid4()}"
    Transaction.create(url, _SCHEMA, storage_options=proxy.options).commit("CREATE TABLE")
    _add(proxy, url)
    asked: list[float] = []

    def slower(_: Request) -> Fault:
        asked.append(time.monotonic())
        return Fault(delay_s=delay_s)

    with proxy.faults(slower):
        seconds, version = timed(lambda: _add(proxy, url))
    return _Commit(seconds, version, in_turn(asked, delay_s))


def _add(proxy: FaultProxy, url: str) -> int:
    transaction = Transaction(url, storage_options=proxy.options)
    transaction.add(AddFile(f"{uuid.uuid4()}.parquet", {}, 10, 0, stats='{"numRecords":1}'))
    return transaction.commit("WRITE").version


def in_turn(asked: Sequence[float], delay_s: float) -> int:
    """How many requests wait for each other: those that come before the first of them is answered count as one."""
    count, answered = 0, float("-inf")
    for at in sorted(asked):
        if at >= answered:
            count, answered = count + 1, at + delay_s
    return count


@contextmanager
def _environment(options: Mapping[str, str]) -> Iterator[None]:
    """The options of a store as variables of the environment, for this process and those that it starts."""
    told = {key.upper(): value for key, value in options.items()}
    before = {key: os.environ.get(key) for key in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key)
            if value is not None:
                os.environ[key] = value
