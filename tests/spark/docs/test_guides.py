"""The guides, as a reader pastes them: every block in order, unchanged except for places."""

from __future__ import annotations

import logging
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import ConcurrentAppendException, TableNotFound
from tests.cli.commands import run as run_command
from tests.spark.written import read, rows
from tests.stores.documents import blocks, run_document

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

Names = dict[str, Any]


def of_start(names: Names, root: Path) -> None:
    """Two tables, and a lake whose stock went from ten to nine."""
    assert rows(read(names["spark"], root / "flights")) == [("UA", 0), ("UA", 40)]
    assert rows(names["carriers"].toDF()) == [("DL", 7), ("UA", 5)]
    assert [rows(table.toDF()) for table in (names["past"].table("stock"), names["lake"].table("stock"))] == [
        [("A1", 10)],
        [("A1", 9)],
    ]


def of_delta_spark(names: Names, root: Path) -> None:
    assert (names["DeltaTable"], rows(read(names["spark"], root / "numbers"))) == (
        slackwater.DeltaTable,
        [(0,), (1,), (2,)],
    )


def of_upserts(names: Names, root: Path) -> None:
    assert rows(names["customers"].toDF()) == [(1, "Ann", "Bern"), (2, "Bob", "Paris"), (3, "Cleo", "Kyiv")]
    assert rows(read(names["spark"], root / "order_lines")) == [(1, "tea"), (2, "salt"), (3, "oil")]
    periods = sorted((row.id, row.city, str(row.since), str(row.until)) for row in names["addresses"].toDF().collect())
    assert periods == [
        (1, "Bern", "2026-01-01", "2026-11-23"),
        (1, "Paris", "2026-11-23", "None"),
        (2, "Kyiv", "2026-11-23", "None"),
    ]
    found = names["cities"].system_time().changes({"id": 1}).collect()
    assert [(row.city, row.system_end is None) for row in found] == [("Bern", False), ("Paris", True)]


def of_schema_changes(names: Names, root: Path) -> None:
    assert names["table"].toDF().columns == ["qty", "id", "sku", "remark"]
    assert dict(names["table"].toDF().dtypes)["qty"] == "decimal(10,2)"


def of_change_feed(names: Names, root: Path) -> None:
    assert [row.sku for row in read(names["spark"], root / "removed").collect()] == ["B2"]
    kinds = [row._change_type for row in read(names["spark"], root / "stock_changes").collect()]
    assert sorted(kinds) == ["delete", "update_postimage", "update_preimage"]


def of_audit(names: Names, root: Path) -> None:
    assert rows(names["past"].table("accounts").toDF()) == [("Ann", 10), ("Bob", 20)]
    found = names["versions"].collect()
    assert [(row.balance, row.started_by, row.ended_by) for row in found] == [
        (20, "insert", "update"),
        (15, "update", None),
    ]
    assert set(names["lake"].history(1).first().userMetadata.values()) == {"ticket 4711, approved by Ann"}


def of_erasure(names: Names, root: Path) -> None:
    assert rows(names["table"].toDF()) == [(1, "Ann"), (3, "Cleo")]


def of_writers(names: Names, root: Path) -> None:
    assert rows(read(names["spark"], root / "flights")) == [(1, "DL"), (2, "UA")]
    assert rows(names["lake"].table("stock").toDF()) == [("A1", 2)]


def of_clones(names: Names, root: Path) -> None:
    (root / "of_a_test").mkdir()
    names["test_negative_amounts_go"](names["spark"], root / "of_a_test")
    assert rows(names["lake"].table("stock").toDF()) == [("A1", 3)]


def of_notebooks(names: Names, root: Path) -> None:
    assert "committed" in names["tx"]._repr_html_()
    assert "<td>A1</td>" in (root / "stock.html").read_text()


def of_pipelines(names: Names, root: Path) -> None:
    """It says itself what it made."""


def of_variants(names: Names, root: Path) -> None:
    assert [document["payload"] for document in names["documents"]] == [
        '{"device":{"os":"ios"},"n":0}',
        '{"device":{"os":"ios"},"n":2}',
    ]
    assert slackwater.Snapshot.load(root / "places").to_arrow().num_rows == 1


def of_collations(names: Names, root: Path) -> None:
    assert rows(read(names["spark"], root / "people").where("name = 'gràce'")) == [(2, "Grace")]


def of_observed(names: Names, root: Path) -> None:
    """A line in the log for each commit, and the counters of the last job."""
    logging.getLogger("slackwater").setLevel(logging.NOTSET)
    assert (names["job"].commits, names["job"].rows_added, names["job"].conflicts) == (1, 2, 0)
    record = logging.makeLogRecord({"slackwater": {"version": 1}, "levelname": "INFO"})
    assert names["JsonLines"]().format(record) == '{"level": "INFO", "version": 1}'


def of_home(names: Names, root: Path) -> None:
    assert rows(names["lake"].table("landed").toDF()) == [("AA", 12), ("UA", 0)]
    assert names["lake"].table("loads").toDF().count() == 1


def of_orchestration(names: Names, root: Path) -> None:
    """It checks by itself what it wrote, but for the rule of its retries."""
    calls: list[int] = []

    def conflicts_once() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConcurrentAppendException("another writer was first")
        return "done"

    def fails() -> None:
        raise TableNotFound("no table")

    assert names["retried"](conflicts_once, wait_s=0) == "done"
    with pytest.raises(TableNotFound):
        names["retried"](fails, wait_s=0)
    assert len(calls) == 2


GUIDES: dict[str, Callable[[Names, Path], None]] = {
    "docs/index.md": of_home,
    "docs/guides/orchestration.md": of_orchestration,
    "docs/guides/from-delta-spark.md": of_delta_spark,
    "docs/guides/upserts-and-scd2.md": of_upserts,
    "docs/guides/schema-changes.md": of_schema_changes,
    "docs/guides/variants-and-shapes.md": of_variants,
    "docs/guides/collations.md": of_collations,
    "docs/guides/change-feed.md": of_change_feed,
    "docs/guides/audit.md": of_audit,
    "docs/guides/observe.md": of_observed,
    "docs/guides/gdpr-erasure.md": of_erasure,
    "docs/guides/idempotent-pipelines.md": of_pipelines,
    "docs/guides/concurrent-writers.md": of_writers,
    "docs/guides/testing-with-clones.md": of_clones,
    "docs/guides/notebooks.md": of_notebooks,
}


@pytest.fixture(autouse=True)
def no_views_stay(spark: SparkSession) -> Iterator[None]:
    """Views that a guide makes would stand before tables of lakes in the tests that follow."""
    yield
    for view in spark.sql("SHOW VIEWS").collect():
        if view.isTemporary:
            spark.catalog.dropTempView(view.viewName)


@pytest.fixture
def names(spark: SparkSession) -> Iterator[Names]:
    """The names of a guide, none at first: it gets the session by itself. Its lakes are closed in the end."""
    found: Names = {"__name__": "guide"}
    yield found
    for value in found.values():
        if isinstance(value, slackwater.Lake):
            value.close()


@pytest.mark.parametrize("guide", GUIDES)
def test_the_lines_of_a_guide_run_in_order(names: Names, tmp_path: Path, guide: str) -> None:
    run_document(guide, names, {"work/": f"{tmp_path}/"})
    GUIDES[guide](names, tmp_path)


@pytest.mark.modes
def test_the_first_five_minutes(names: Names, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """In both modes; the server is the one of the tests."""
    mode = "connect" if request.config.getoption("--connect") else "classic"
    places = {"work/": f"{tmp_path}/"} | ({"sc://localhost:15002": "local[2]"} if mode == "connect" else {})
    run_document("docs/start.md", names, places, mode)
    of_start(names, tmp_path)


def test_the_readme(spark: SparkSession, names: Names, tmp_path: Path) -> None:
    """Its table of the catalog is dropped again."""
    try:
        run_document("README.md", names, {"work/": f"{tmp_path}/"})
    finally:
        spark.sql("DROP TABLE IF EXISTS airports")
    assert rows(names["lake"].table("carriers").toDF()) == [("AA", 1), ("DL", 1), ("UA", 1)]
    assert rows(names["lake"].table("stock").toDF()) == [("A1", 10)]
    assert (rows(names["table"].toDF()), names["trial"].toDF().count()) == (
        [(1, "AA", 12), (12, "UA", 90), (12, "XX", -5)],
        3,
    )
    (commands,) = blocks("README.md", "console")
    for line in commands.replace("work/", f"{tmp_path}/").splitlines():
        program, *arguments = shlex.split(line)
        result = run_command(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), result.output


def test_the_lines_about_errors(spark: SparkSession, names: Names, tmp_path: Path) -> None:
    run_document("docs/errors.md", names, {"work/": f"{tmp_path}/"})


def test_the_lines_about_transactions_and_time(spark: SparkSession, names: Names, tmp_path: Path) -> None:
    run_document("docs/transactions.md", names, {"work/": f"{tmp_path}/transactions/"})
    assert rows(names["past"].table("stock").toDF()) == [("A1", 10)]
    assert rows(names["lake"].table("stock").toDF()) == [("A1", 8)]
    names["lake"].close()
    run_document("docs/time-travel.md", names, {"work/": f"{tmp_path}/time/"})
    assert [row.qty for row in names["stock"].changes({"sku": "A1"}).collect()] == [10, 9]
    assert rows(names["past"].table("stock").toDF()) == [("A1", 10)]
    assert names["df"].count() == 1


def test_the_lines_about_the_commit_owner(spark: SparkSession, names: Names, tmp_path: Path) -> None:
    run_document("docs/commit-owner.md", names, {"work/": f"{tmp_path}/"})
    found = [names["lake"].snapshot(name).configuration for name in ("orders", "stock")]
    managed = dict(zip(("orders", "stock"), (each.supports("catalogManaged") for each in found), strict=True))
    assert managed == {"orders": True, "stock": False}


@pytest.mark.modes
def test_the_lines_about_clusters(
    spark: SparkSession, names: Names, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In both modes; the cluster is that of the tests, in `make cluster` one of several processes."""
    if request.config.getoption("--connect"):
        package = tmp_path / "sent.zip"
        with zipfile.ZipFile(package, "w") as written:
            written.writestr("sent_by_a_guide.py", "ANSWER = 42")
        run_document(
            "docs/guides/clusters.md",
            names,
            {"sc://server:15002": "local[2]", "slackwater.zip": str(package)},
            "connect",
        )

        def what_was_sent(batches: Any) -> Any:
            import pyarrow as pa
            from sent_by_a_guide import ANSWER  # type: ignore[import-not-found]

            for _ in batches:
                yield pa.RecordBatch.from_pydict({"x": pa.array([ANSWER], pa.int32())})

        assert [row.x for row in spark.range(0, 1, 1, 1).mapInArrow(what_was_sent, "x INT").collect()] == [42]
    else:
        master = spark.sparkContext.master
        assert master is not None
        places = {"spark://master:7077": master, "/opt/venv/bin/python": sys.executable}
        run_document("docs/guides/clusters.md", names, places, "classic")
        assert names["spark"].sparkContext.master == master
