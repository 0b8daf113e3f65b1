"""What changing rows costs: against Spark rewriting Parquet by hand, delta-spark, deltalake, and other ways of ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from benchmarks.dml_rivals import Rival, delta_spark, deltalake
from benchmarks.dml_tables import (
    BUCKETS,
    Answer,
    Targets,
    answer_of,
    linked,
    recorded_changes,
    rewritten_files,
)
from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale
from slackwater import DeltaTable
from slackwater.spark.enable import enable
from slackwater.spark.read.load import load
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

SETTINGS = {
    # Enough for what is joined and sorted to fit in memory, the same for every Spark.
    "spark.sql.shuffle.partitions": "8",
    # As we write them, so that every side writes the same.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What a Spark that changes rows has besides the settings of all benchmarks."""

_BY_HAND = "Spark reading and rewriting the touched Parquet by hand"
_COPY = "our copy-on-write"
_SURELY_HIT = 10_000
_VECTORS = {"delta.enableDeletionVectors": "true"}
_FEED = {"delta.enableChangeDataFeed": "true"}


Fact = Callable[[Path], Any]


@dataclass(frozen=True)
class _Side:
    """Work on a copy of `table` that says its seconds, and what the table is then seen to hold.

    `facts` are further things that have to be so after each run, and are looked at in the table's directory.
    """

    table: Path
    work: Callable[[Path], float]
    facts: Mapping[Fact, Any] = field(default_factory=dict)
    read: Callable[[SparkSession, str], DataFrame] = load


@dataclass(frozen=True)
class _Bench:
    """What every case needs; `missing` says why a rival is not among `rivals`."""

    spark: SparkSession
    targets: Targets
    rivals: Sequence[Rival]
    missing: Mapping[str, str]

    @property
    def scale(self) -> Scale:
        return self.targets.scale

    def turns(self, sides: Mapping[str, _Side], expected: Mapping[str, Answer]) -> dict[str, float]:
        """Each side's median seconds. Raises SidesDisagree where a run leaves other rows than are `expected` of it."""
        works = {name: partial(self._run, name, side, expected[name]) for name, side in sides.items()}
        found = interleaved(works, self.scale.change_repetitions, self.scale.change_warmups)
        return {name: middle(seconds) for name, seconds in found.items()}

    def merge(self, path: Path, source: Path, updates: bool) -> float:
        """Our side of `Rival.merge`: the same calls, the same time."""

        def work() -> None:
            table = DeltaTable.forPath(self.spark, str(path)).alias("t")
            builder = table.merge(self.targets.read_source(source).alias("s"), "t.id = s.id")
            if updates:
                builder = builder.whenMatchedUpdateAll()
            builder.whenNotMatchedInsertAll().execute()

        return timed(work)[0]

    def _run(self, name: str, side: _Side, expected: Answer) -> float:
        root = self.targets.data / "changed" / name
        linked(side.table, root)
        seconds = side.work(root)
        agree(expected, answer_of(side.read(self.spark, str(root))))
        for fact, value in side.facts.items():
            agree(value, fact(root))
        shutil.rmtree(root)
        return seconds


def delete(bench: _Bench) -> list[Row]:
    """A delete of random rows, in the two ways there are."""
    targets, condition = bench.targets, f"bucket < {BUCKETS // 100}"
    before = load(bench.spark, str(targets.plain))

    def ours(root: Path) -> float:
        return timed(lambda: DeltaTable.forPath(bench.spark, str(root)).delete(condition))[0]

    def by_hand(root: Path) -> float:
        return timed(lambda: _rewritten(bench.spark, root, before.schema, f"not ({condition})"))[0]

    every_file: dict[Fact, int] = {rewritten_files: bench.scale.target_files}
    sides = {
        "copying": _Side(targets.plain, ours, every_file),
        "marking": _Side(targets.with_properties("vectors", _VECTORS), ours, every_file),
        "by-hand": _Side(targets.plain, by_hand, read=_read_rewritten),
    }
    answer = answer_of(before.where(f"not ({condition})"))
    seconds = bench.turns(sides, dict.fromkeys(sides, answer))
    work = f"delete 1 % of {_table(bench)}, random rows"
    copying, marking, hand = (seconds[name] for name in sides)
    return [
        Row("delete", f"{work}, copy-on-write", _BY_HAND, copying, hand, 1.3, answers=(answer, answer)),
        Row("delete", "the same with deletion vectors", _COPY, marking, copying, 0.5, answers=(answer, answer)),
    ]


def merge_upsert(bench: _Bench) -> list[Row]:
    """A merge that updates rows of every file and inserts a few."""
    source = bench.targets.upsert_source()
    work = f"merge into {_table(bench)}: 1 % matched, 0.1 % new, random keys"
    return _merge(bench, "merge-upsert", work, source, True, 1.0)


def merge_insert(bench: _Bench) -> list[Row]:
    """A merge that has only inserts."""
    source = bench.targets.new_source()
    work = f"merge into {_table(bench)}: insert only, 10 % new"
    return _merge(bench, "merge-insert", work, source, False, 0.8)


def merge_narrow(bench: _Bench) -> list[Row]:
    """A merge whose keys all lie in a few files."""
    targets, files = bench.targets, bench.scale.target_files
    narrow, wide = targets.narrow_source(), targets.upsert_source()
    touched = max(1, files // 20)
    # Of a small file, one row in a hundred may be none.
    everywhere: dict[Fact, int] = {rewritten_files: files} if bench.scale.target_rows // files >= _SURELY_HIT else {}
    sides = {
        "narrow": _Side(targets.plain, partial(bench.merge, source=narrow, updates=True), {rewritten_files: touched}),
        "wide": _Side(targets.plain, partial(bench.merge, source=wide, updates=True), everywhere),
    }
    expected = {"narrow": targets.upserted(narrow), "wide": targets.upserted(wide)}
    ours, rival = bench.turns(sides, expected).values()
    work = f"merge that touches {touched} of {files} files, sorted keys"
    against = "ours, as many source rows over all files"
    return [Row("merge-narrow", work, against, ours, rival, 0.25, answers=tuple(expected.values()))]


def merge_clustered(bench: _Bench) -> list[Row]:
    """A merge of one key range, into a table in no order and into the same one after it was clustered by its key."""
    targets, files = bench.targets, bench.scale.target_files
    source = targets.narrow_source()
    merge = partial(bench.merge, source=source, updates=True)
    everywhere: dict[Fact, int] = {rewritten_files: files} if bench.scale.target_rows // files >= _SURELY_HIT else {}
    sides = {
        "after": _Side(targets.clustered, merge, {lambda root: rewritten_files(root) <= files // 5: True}),
        "before": _Side(targets.shuffled, merge, everywhere),
    }
    answer = targets.upserted(source)
    ours, rival = bench.turns(sides, dict.fromkeys(sides, answer)).values()
    work = f"merge into {_table(bench)}: 1 % matched, 0.1 % new, keys of one range, after clustering by the key"
    return [Row("merge-clustered", work, "ours, before", ours, rival, 0.3, answers=(answer, answer))]


def update_feed(bench: _Bench) -> list[Row]:
    """An update of many rows with and without change files."""
    targets, condition = bench.targets, f"bucket < {BUCKETS * 3 // 10}"
    values = {"amount": "amount * 2", "status": "'corrected'"}

    def ours(root: Path) -> float:
        return timed(lambda: DeltaTable.forPath(bench.spark, str(root)).update(condition, values))[0]

    before = load(bench.spark, str(targets.plain))
    changed = before.where(condition).count()
    sides = {
        "feed": _Side(targets.with_properties("feed", _FEED), ours, {recorded_changes: 2 * changed}),
        "no-feed": _Side(targets.plain, ours, {recorded_changes: 0}),
    }
    new = {name: f"if({condition}, {value}, {name})" for name, value in values.items()}
    answer = answer_of(before.selectExpr(*(f"{new.get(name, name)} as {name}" for name in before.columns)))
    with_feed, without = bench.turns(sides, dict.fromkeys(sides, answer)).values()
    work = f"update 30 % of {_table(bench)}, change feed on"
    return [Row("update-feed", work, "ours, without", with_feed, without, 1.6, answers=(answer, answer))]


DML = {
    "delete": delete,
    "merge-upsert": merge_upsert,
    "merge-insert": merge_insert,
    "merge-narrow": merge_narrow,
    "merge-clustered": merge_clustered,
    "update-feed": update_feed,
}
"""The cases of changing rows, by name."""

_WITH_RIVALS = {"merge-upsert", "merge-insert"}


def measure_dml(
    spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale, settings: Mapping[str, str]
) -> list[Row]:
    """The rows of `cases`; `settings` are those of our session, which a rival's Spark gets too."""
    enable(spark)
    with _configured(spark), ExitStack() as running:
        rivals: list[Rival] = []
        missing: dict[str, str] = {}
        if _WITH_RIVALS.intersection(cases):
            installation = find()
            if installation is None:
                missing["delta-spark"] = HOW_TO_INSTALL
            else:
                rivals.append(running.enter_context(delta_spark(installation, {**settings, **SETTINGS})))
            rivals.append(running.enter_context(deltalake()))
        bench = _Bench(spark, Targets(spark, data / "dml", scale), rivals, missing)
        return [row for name in cases for row in DML[name](bench)]


def _merge(bench: _Bench, case: str, work: str, source: Path, updates: bool, mark: float) -> list[Row]:
    targets = bench.targets
    engines: dict[str, Callable[..., float]] = {"ours": bench.merge} | {
        rival.name: rival.merge for rival in bench.rivals
    }
    sides = {
        name: _Side(targets.plain, partial(merge, source=source, updates=updates)) for name, merge in engines.items()
    }
    answer = targets.upserted(source)
    seconds = bench.turns(sides, dict.fromkeys(sides, answer))
    ours, *others = seconds.values()
    rows = [
        Row(case, work, rival.name, ours, theirs, mark, answers=(answer, answer))
        for rival, theirs in zip(bench.rivals, others, strict=True)
    ]
    return rows + [
        Row(case, work, f"{name}: not measured", ours, answers=(answer,), note=why)
        for name, why in bench.missing.items()
    ]


@contextmanager
def _configured(spark: SparkSession) -> Iterator[None]:
    before = {name: cast("str", spark.conf.get(name)) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _rewritten(spark: SparkSession, root: Path, schema: StructType, condition: str) -> None:
    """What a hand that knows the files and their schema does: the rows to keep, in new files."""
    spark.read.schema(schema).parquet(str(root)).where(condition).write.parquet(str(_hands(root)))


def _read_rewritten(spark: SparkSession, root: str) -> DataFrame:
    return spark.read.parquet(str(_hands(Path(root))))


def _hands(root: Path) -> Path:
    # What begins with an underscore is no data to Spark.
    return root / "_rewritten"


def _table(bench: _Bench) -> str:
    return f"{bench.scale.target_rows:,} rows in {bench.scale.target_files} files"
