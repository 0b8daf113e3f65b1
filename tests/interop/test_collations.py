"""Tables with collations: delta-spark reads those that Slackwater writes. It creates and writes none itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .delta_spark import DeltaSpark, DeltaSparkError
from .peers import PEERS, why_absent
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

_CONDITIONS = ("s = 'A'", "s > 'A'", "s < 'b'", "s IN ('A', 'b')", "startswith(s, 'B')", "s LIKE 'b%'")


def _table(ours: SparkSession, path: str, is_collated_later: bool) -> str:
    here, kind = f"delta.`{path}`", "STRING COLLATE UTF8_LCASE"
    ours.sql(f"CREATE TABLE {here} (id INT, s {'STRING' if is_collated_later else kind}) USING delta")
    ours.sql(f"INSERT INTO {here} VALUES (1, 'a')")
    ours.sql(f"INSERT INTO {here} VALUES (2, 'B')")
    if is_collated_later:
        ours.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE {kind}")
    return here


@pytest.mark.parametrize("is_collated_later", [False, True], ids=["created", "altered"])
def test_delta_spark_compares_by_the_collation_of_our_table(
    is_collated_later: bool, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    here = _table(ours, str(tmp_path / "t"), is_collated_later)
    for condition in _CONDITIONS:
        query = f"SELECT id, s FROM {here} WHERE {condition}"
        assert rows_of(delta_spark.sql(query).rows) == rows_of(ours.sql(query).toArrow()), condition


def test_delta_spark_refuses_to_create_and_to_write_tables_with_collations(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    with pytest.raises(DeltaSparkError) as created:
        delta_spark.run(f"CREATE TABLE delta.`{tmp_path / 'u'}` (s STRING COLLATE UTF8_LCASE) USING delta")
    assert created.value.condition == "DELTA_UNSUPPORTED_DATA_TYPES"
    here = _table(ours, str(tmp_path / "t"), is_collated_later=False)
    for statement in (f"INSERT INTO {here} VALUES (3, 'c')", f"DELETE FROM {here} WHERE s = 'A'"):
        with pytest.raises(DeltaSparkError) as written:
            delta_spark.run(statement)
        assert written.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"


@pytest.mark.parametrize("peer", PEERS)
def test_another_engine_reads_the_bytes_of_the_texts(peer: str, ours: SparkSession, tmp_path: Path) -> None:
    if reason := why_absent(peer):
        pytest.skip(reason)
    _table(ours, str(tmp_path / "t"), is_collated_later=False)
    assert sorted(PEERS[peer](str(tmp_path / "t"))["s"].to_pylist()) == ["B", "a"]
