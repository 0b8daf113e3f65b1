"""Tables that other engines wrote, copied into a bucket: read there they hold what they hold on a disk."""

from __future__ import annotations

from itertools import count

import pytest
from pyspark.sql import SparkSession

from slackwater.storage import open_store
from tests.conformance.golden import GoldenTable, each, require_golden_tables, table_hash, tables
from tests.stores.servers import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("golden")]

_COPIED = (
    "delta/data-reader-partition-values",
    "delta/hive__deltatbl-special-chars-in-partition-column",
    "delta/column-mapping-id",
    "delta/table-with-columnmapping-mode-name",
    "delta/basic-dv-no-checkpoint",
    "delta/type-widening",
    "kernel-rs/multi-part-checkpoint",
    "kernel-rs/v2-checkpoint-parquet",
    "dat-v0.0.3/nested_types",
    "dat-v0.0.3/all_primitive_types",
    "dat-v0.0.3/multi_partitioned_2",
    "delta-history/row-tracking",
    "delta-rs-history/timestamp_partitioned_df",
    "delta-rs/table_with_liquid_clustering",
    "delta-rs/table_with_edge_timestamps",
    "delta/data-reader-timestamp_ntz-id-mode",
    "delta/kernel-timestamp-TIMESTAMP_MILLIS",
    "delta/log-replay-dv-key-cases",
    "kernel-rs/cdf-table-backtick-column-names",
    "kernel-rs/only-checkpoint-files",
    "kernel-rs/v2-checkpoint-json",
)
_copies = count()


@pytest.fixture(scope="session")
def golden() -> None:
    require_golden_tables()


def copied(table: GoldenTable, place: Place) -> str:
    """The URL of a copy of the table."""
    root = f"{place.url}/golden {next(_copies)}"
    store = open_store(root, place.options)
    for file in (found for found in table.root.rglob("*") if found.is_file()):
        store.put(file.relative_to(table.root).as_posix(), file.read_bytes())
    return root


@pytest.mark.parametrize("table", each(t for t in tables() if t.id in _COPIED))
def test_a_copy_in_a_bucket_holds_the_rows_of_the_index(spark: SparkSession, place: Place, table: GoldenTable) -> None:
    read = table_hash()(spark.read.format("delta").load(copied(table, place)).toArrow())
    assert (read["rows"], read["hash"]) == (table.truth["rows"], table.truth["hash"])


def test_all_tables_that_are_meant_are_in_the_index() -> None:
    assert set(_COPIED) <= {table.id for table in tables()}
    assert len(_COPIED) >= 20
