"""A client whose query runs in a Spark Connect server, which may be killed on the way.

`python served_stream.py ADDRESS KIND ROOT COUNT [MORE POINT SURVIVED MARK]`: the query of KIND has had COUNT batches in
what is below ROOT. With MORE of them it goes on until its server dies at the POINT of the batch after SURVIVED others,
once the file MARK is there; without, to its end, and every batch must be in its tables once.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from tests.faults import dying_lake_stream, dying_stream
from tests.faults.dying_batch_worker import dying_batches
from tests.faults.fed_streams import LakeFeed, TableFeed
from tests.spark.streams.queries import finished

TABLE, LAKE = "table", "lake"
_TRIES = 3
# Each plan runs once: compiling it costs more than it saves.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LAKE_POINTS = {name: (owner, call, "", after) for name, (owner, call, after) in dying_lake_stream.POINTS.items()}
POINTS: dict[str, dict[str, tuple[Any, str, str, bool]]] = {TABLE: dying_stream.POINTS, LAKE: _LAKE_POINTS}


def main(address: str, kind: str, root: str, count: str, *told: str) -> None:
    builder = SparkSession.builder.remote(address)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    spark = slackwater.enable(builder.create())
    with _fed(spark, kind, Path(root)) as feed:
        feed.count = int(count)
        if told:
            more, point, survived, mark = told
            feed.require_whole_batches()
            feed.more(int(more))
            with dying_batches(*POINTS[kind][point], int(survived), Path(mark)):
                _finish(feed)
            raise AssertionError("the query came to its end, and its server lives")
        _finish(feed)
        feed.require_all()


def _finish(feed: Any) -> None:
    """Let the query come to its end. On a busy machine Spark's limit of 10 s for a new Python is no fault of it."""
    for _ in range(_TRIES):
        try:
            finished(feed.start())
        except Exception as error:
            if "connect back" not in str(error):
                raise
        else:
            return
    raise AssertionError(f"no Python in time, {_TRIES} times")


def _fed(spark: SparkSession, kind: str, root: Path) -> AbstractContextManager[Any]:
    root.mkdir(exist_ok=True)
    return nullcontext(TableFeed(spark, root)) if kind == TABLE else LakeFeed(spark, root)


if __name__ == "__main__":
    main(*sys.argv[1:])
