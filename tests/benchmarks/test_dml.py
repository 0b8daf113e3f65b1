"""The benchmarks of changing rows run, and every side leaves the rows that it has to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from benchmarks import dml
from benchmarks.dml import DML, measure_dml
from benchmarks.dml_rivals import RivalFailed, deltalake
from benchmarks.dml_tables import Targets
from benchmarks.harness import SidesDisagree
from benchmarks.scales import SMALL
from tests.benchmarks.settings import RIVAL_SETTINGS
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]

_SCALE = replace(SMALL, target_rows=10_000, target_files=20)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dml")


def test_the_rows_of_changing_rows_are_all_there_and_say_where_a_rival_is_missing(
    spark: SparkSession, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dml, "find", lambda: None)
    before = {name: spark.conf.get(name) for name in dml.SETTINGS}
    rows = measure_dml(spark, list(DML), data, _SCALE, RIVAL_SETTINGS)
    assert [(row.case, row.mark) for row in rows] == [
        ("delete", 1.3), ("delete", 0.5), ("merge-upsert", 1.0), ("merge-upsert", None), ("merge-insert", 0.8),
        ("merge-insert", None), ("merge-narrow", 0.25), ("merge-clustered", 0.3), ("update-feed", 1.6),
    ]  # fmt: skip
    counts = {row.case: [rows for rows, _ in row.answers] for row in rows if row.mark}
    assert counts["merge-upsert"] == counts["merge-narrow"] == counts["merge-clustered"] == [10_010, 10_010]
    assert counts["merge-insert"] == [11_000, 11_000]
    assert counts["update-feed"] == [10_000, 10_000]
    assert 9_800 < counts["delete"][0] < 10_000
    assert [row.note for row in rows if row.rival is None] == [HOW_TO_INSTALL] * 2
    assert not list((data / "dml" / "changed").iterdir())
    assert {name: spark.conf.get(name) for name in dml.SETTINGS} == before


def test_a_side_that_leaves_wrong_rows_ends_the_run(
    spark: SparkSession, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dml, "find", lambda: None)
    monkeypatch.setattr(dml, "deltalake", _idle)
    with pytest.raises(SidesDisagree, match=r"11000.*10000"):
        measure_dml(spark, ["merge-insert"], data, _SCALE, RIVAL_SETTINGS)


def test_a_rival_that_fails_says_why(tmp_path: Path, spark: SparkSession, data: Path) -> None:
    source = Targets(spark, data / "dml", _SCALE).new_source()
    with deltalake() as rival, pytest.raises(RivalFailed, match=r"deltalake: TableNotFoundError.*no-table"):
        rival.merge(tmp_path / "no-table", source, True)


def test_narrow_rows_are_as_many_as_those_of_the_upsert_and_meet_the_keys_of_one_file_in_twenty(
    spark: SparkSession, data: Path
) -> None:
    targets = Targets(spark, data / "dml", _SCALE)
    narrow, wide = (targets.read_source(source) for source in (targets.narrow_source(), targets.upsert_source()))
    keys = sorted(row.id for row in narrow.select("id").collect())
    assert len(keys) == len(set(keys)) == wide.count() == 110
    assert keys[0] >= 10_000
    assert keys[-1] < 11_000


@pytest.mark.interop
@pytest.mark.parametrize(
    ("case", "mark"), [("merge-upsert", 1.0), pytest.param("merge-insert", 0.8, marks=pytest.mark.long)]
)
def test_delta_spark_leaves_the_same_rows(spark: SparkSession, data: Path, case: str, mark: float) -> None:
    if find() is None:
        pytest.skip(HOW_TO_INSTALL)
    rows = measure_dml(spark, [case], data, _SCALE, RIVAL_SETTINGS)
    assert [row.against for row in rows] == ["delta-spark", "deltalake"]
    assert [row.mark for row in rows] == [mark] * 2
    assert all(row.rival is not None and row.rival > 0 for row in rows)


class _Idle:
    name = "deltalake"

    def merge(self, path: Path, source: Path, updates: bool) -> float:
        return 1.0


@contextmanager
def _idle() -> Iterator[Any]:
    yield _Idle()
