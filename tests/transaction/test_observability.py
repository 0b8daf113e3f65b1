"""One line in the log for each commit, counters of the process, and spans of OpenTelemetry."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import slackwater
from slackwater.errors import CommitUnknown, ConcurrentDeleteDeleteException, StorageError
from slackwater.lake.lake import LogLake
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import vacuum
from slackwater.rows.delete import delete
from slackwater.rows.write import write
from slackwater.transaction.observability.commit_metrics import count_failure
from slackwater.transaction.observability.commit_report import report_commit
from tests.transaction.tables import ID, add, table

SPANS = InMemorySpanExporter()
METERS = InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def _providers() -> Iterator[None]:
    """OpenTelemetry takes a provider once per process. Later tests record nothing."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([METERS]))
    yield
    SPANS.shutdown()


@pytest.fixture
def commits(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """The lines of commits during a test, as a formatter for JSON gets them."""
    caplog.set_level(logging.INFO, "slackwater")
    found: list[dict[str, Any]] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if hasattr(record, "slackwater"):
                found.append({**record.slackwater, "line": record.getMessage(), "level": record.levelname})

    handler = Lines()
    logging.getLogger("slackwater").addHandler(handler)
    SPANS.clear()
    yield found
    logging.getLogger("slackwater").removeHandler(handler)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def briefly(commits: list[dict[str, Any]]) -> list[tuple[int, str, int | None, int | None, int, int]]:
    keys = ("version", "operation", "rows_added", "rows_removed", "files_added", "files_removed")
    return [tuple(each[key] for key in keys) for each in commits]


def test_every_commit_of_a_table_has_one_line(tmp_path: Path, commits: list[dict[str, Any]]) -> None:
    place = tmp_path / "t"
    write(place, rows(1, 2, 3))
    write(place, rows(4), mode="append")
    delete(place, "id < 4")
    restore(Table.at(place), 0)
    shallow_clone(slackwater.Snapshot.load(place), Table.at(tmp_path / "clone"))  # type: ignore[arg-type]
    vacuum(Table.at(place))
    # A restore and a clone do not parse the statistics of the files.
    assert briefly(commits) == [
        (0, "WRITE", 3, 0, 1, 0),
        (1, "WRITE", 1, 0, 1, 0),
        (2, "DELETE", 0, 3, 0, 1),
        (3, "RESTORE", None, None, 1, 1),
        (0, "CLONE", None, None, 1, 0),
        (4, "VACUUM START", 0, 0, 0, 0),
        (5, "VACUUM END", 0, 0, 0, 0),
    ]
    assert {each["level"] for each in commits} == {"INFO"}
    assert {each["transaction"] for each in commits} == {None}
    first = commits[0]
    assert first["line"] == (
        f"commit table={place} version=0 operation=WRITE rows_added=3 rows_updated=0 rows_removed=0 "
        f"files_added=1 files_removed=0 bytes_added={first['bytes_added']} bytes_removed=0 "
        f"milliseconds={first['milliseconds']} attempts=1 timestamp={first['timestamp']}"
    )


def test_a_transaction_has_one_line_for_each_table_with_its_id_and_timestamp(
    tmp_path: Path, commits: list[dict[str, Any]]
) -> None:
    before = slackwater.commit_metrics()
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("a", "b", "c"):
            lake._create_log(name, lake_schema())
        commits.clear()
        SPANS.clear()
        with lake.transaction() as tx:
            tx.table("a").append(rows(1))
            tx.table("b").append(rows(2))
            tx.table("b").append(rows(3))
            tx.snapshot("c")
        assert sorted((each["table"][-1], each["version"], each["rows_added"]) for each in commits) == [
            ("a", 1, 1),
            ("b", 1, 2),
        ]
        assert {each["transaction"] for each in commits} == {tx.id}
        (stamp,) = {each["timestamp"] for each in commits}
        assert stamp == tx.commit_timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        spans = {span.name: span for span in SPANS.get_finished_spans()}
        assert [span.name for span in SPANS.get_finished_spans()] == 2 * ["slackwater.commit"] + [
            "slackwater.transaction"
        ]
        whole, part = spans["slackwater.transaction"], spans["slackwater.commit"]
        assert part.parent is not None
        assert part.parent.span_id == whole.context.span_id
        assert whole.attributes is not None
        assert (whole.attributes["slackwater.transaction"], whole.attributes["slackwater.tables"]) == (
            tx.id,
            ("a", "b"),
        )
        tx = lake.transaction()
        tx.table("a").append(rows(9))
        tx.rollback()
        last = SPANS.get_finished_spans()[-1]
        assert last.attributes is not None
        assert last.attributes["slackwater.outcome"] == "rolled back"
    assert slackwater.commit_metrics() - before == slackwater.CommitMetrics(
        commits=5, transactions=1, rows_added=3, files_added=3, bytes_added=sum(c["bytes_added"] for c in commits)
    )


def lake_schema() -> str:
    return '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def test_a_commit_is_a_span_below_the_span_of_the_job(tmp_path: Path, commits: list[dict[str, Any]]) -> None:
    with trace.get_tracer("job").start_as_current_span("job") as job:
        write(tmp_path / "t", rows(1, 2))
    commit, _ = SPANS.get_finished_spans()
    assert (commit.name, commit.parent) == ("slackwater.commit", job.get_span_context())
    expected = {f"slackwater.{key}": value for key, value in commits[0].items() if value is not None}
    assert dict(commit.attributes or {}) == {
        k: v for k, v in expected.items() if k.split(".")[1] not in ("line", "level")
    }


def test_conflicts_retries_and_unknown_outcomes_are_counted(
    tmp_path: Path, commits: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    created = table(ID, path=str(tmp_path / "t"))
    first = slackwater.Transaction(created)
    first.add(add("a"))
    first.commit("WRITE")
    before, known = slackwater.commit_metrics(), slackwater.Snapshot.load(tmp_path / "t")
    one, other, late = (slackwater.Transaction(known) for _ in range(3))
    one.remove("a")
    one.commit("DELETE")
    other.remove("a")
    with pytest.raises(ConcurrentDeleteDeleteException):
        other.commit("DELETE")
    late.add(add("b"), fresh=True)
    assert late.commit("WRITE").attempts == 2
    assert (commits[-1]["attempts"], commits[-1]["version"]) == (2, 3)
    unknown = slackwater.Transaction(tmp_path / "t")
    unknown.add(add("c"), fresh=True)

    def lost(*_: object) -> None:
        raise StorageError("the connection was lost")

    store = type(unknown._inner.store)
    monkeypatch.setattr(store, "put_if_absent", lost)
    monkeypatch.setattr(store, "read", lost)
    monkeypatch.setattr(store, "list_from", lost)
    with pytest.raises(CommitUnknown):
        unknown.commit("WRITE")
    job = slackwater.commit_metrics() - before
    assert (job.commits, job.retries, job.conflicts, job.unknown_outcomes) == (2, 1, 1, 1)
    failed = [span for span in SPANS.get_finished_spans() if not span.status.is_ok and span.status.description]
    assert len(failed) == 2


def test_an_error_is_counted_once() -> None:
    before, error = slackwater.commit_metrics(), CommitUnknown("?")
    for _ in range(2):
        count_failure(error)
    count_failure(KeyError())
    assert (slackwater.commit_metrics() - before) == slackwater.CommitMetrics(unknown_outcomes=1)


def test_the_meters_have_the_counters(tmp_path: Path) -> None:
    write(tmp_path / "t", rows(1))
    data = METERS.get_metrics_data()
    assert data is not None
    points = {
        metric.name: metric.data.data_points[0]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert points["slackwater.commits"].value >= 1  # type: ignore[union-attr]
    assert points["slackwater.rows_added"].value >= 1  # type: ignore[union-attr]
    assert points["slackwater.commit.duration"].count >= 1  # type: ignore[union-attr]


def test_statistics_of_very_many_files_are_not_parsed() -> None:
    info = {"commitInfo": {"operation": "WRITE", "operationMetrics": {"numOutputRows": "7"}}}
    adds = [{"add": {"path": f"{n}", "size": 2, "dataChange": True, "stats": "no JSON"}} for n in range(10_000)]
    report = report_commit("/t", 1, [info, *adds], 5, 9, 0, 1)
    assert report is not None
    assert (report.rows_added, report.files_added, report.bytes_added) == (7, 10_000, 20_000)
    assert (report.milliseconds, report.timestamp) == (4, "1970-01-01T00:00:00.000Z")


def test_a_report_never_fails_a_commit(caplog: pytest.LogCaptureFixture) -> None:
    before = slackwater.commit_metrics()
    assert report_commit("/t", 1, [{"commitInfo": {}}], 0, 0, 1 << 70, 1) is None
    assert "/t: version 1 is committed, but not counted" in caplog.text
    assert slackwater.commit_metrics() == before


def test_nothing_is_shown_where_no_level_is_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "t", rows(1))
    assert caplog.records == []
    assert set(asdict(slackwater.commit_metrics())) >= {"commits", "bytes_added"}
