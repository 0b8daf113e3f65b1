"""Partition values as columns, whatever zone the session and the operating system are in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.spark.read.load import load
from tests.cluster.standalone import environment
from tests.spark.tables import write_table

pytestmark = [pytest.mark.spark, pytest.mark.modes]

# Of each type two values: as the log has them, and as `SHOWN` says them, in no zone.
PARTITIONS: dict[str, tuple[str, str, list[str | None], list[str | None]]] = {
    "p_int": ("integer", "cast(p_int as string)", ["-7", "8"], ["-7", "8"]),
    "p_bool": ("boolean", "cast(p_bool as string)", ["true", "false"], ["true", "false"]),
    "p_text": ("string", "p_text", ["a b", None], ["a b", None]),
    "p_double": ("double", "cast(p_double as string)", ["1.5", "-2.5"], ["1.5", "-2.5"]),
    "p_decimal": ("decimal(10,2)", "cast(p_decimal as string)", ["1.25", "-3.00"], ["1.25", "-3.00"]),
    "p_binary": ("binary", "hex(p_binary)", ["\x01", "z"], ["01", "7A"]),
    "p_date": ("date", "cast(p_date as string)", ["2026-03-29", "1582-10-04"], ["2026-03-29", "1582-10-04"]),
    "p_ntz": (
        "timestamp_ntz",
        "cast(p_ntz as string)",
        ["2026-03-29 02:30:00.123456", "1899-12-31 23:59:59"],
        ["2026-03-29 02:30:00.123456", "1899-12-31 23:59:59"],
    ),
    "p_instant": (
        "timestamp",
        "cast(unix_micros(p_instant) as string)",
        ["2026-03-29T02:30:00.123456Z", "1969-12-31T23:59:59.000001Z"],
        ["1774751400123456", "-999999"],
    ),
}
ZONES = ["UTC", "America/St_Johns", "Asia/Kathmandu"]


def table_of(root: Path, files: int) -> str:
    values = [{name: PARTITIONS[name][2][number] for name in PARTITIONS} for number in range(files)]
    columns = [(name, of_type) for name, (of_type, *_) in PARTITIONS.items()]
    return write_table(root, [{"id": [number]} for number in range(files)], values=values, extra_columns=columns)


def shown(spark: SparkSession, path: str) -> list[tuple[Any, ...]]:
    expressions = [says for _, says, *_ in PARTITIONS.values()]
    frame = load(spark, path).selectExpr("id", *expressions)
    return sorted(map(tuple, frame.collect()))


def expected(files: int) -> list[tuple[Any, ...]]:
    return [(number, *(texts[number] for *_, texts in PARTITIONS.values())) for number in range(files)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("files", [1, 2])
def test_partition_values_of_every_type_are_those_of_the_log_in_any_zone(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], zone: str, files: int
) -> None:
    assert os.environ["TZ"] != "UTC", "the machine's zone must not be the session's"
    conf("spark.sql.session.timeZone", zone)
    assert shown(spark, table_of(tmp_path / "t", files)) == expected(files)


@pytest.mark.parametrize("files", [1, 2])
def test_an_update_leaves_partition_values_as_they_were(spark: SparkSession, tmp_path: Path, files: int) -> None:
    path = table_of(tmp_path / "t", files)
    DeltaTable.forPath(spark, path).update(set={"id": F.col("id") + 10})
    assert [row[1:] for row in shown(spark, path)] == [row[1:] for row in expected(files)]
    commit = (Path(path) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    actions = list(map(json.loads, commit))
    before = {action["remove"]["partitionValues"]["p_ntz"] for action in actions if "remove" in action}
    after = {action["add"]["partitionValues"]["p_ntz"] for action in actions if "add" in action}
    assert {text.replace("T", " ") for text in after} == {text.replace("T", " ") for text in before}


@pytest.mark.long
@pytest.mark.parametrize("machine", ["UTC", "America/St_Johns"])
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_partition_values_are_those_of_the_log_on_a_machine_of_any_zone(
    tmp_path: Path, machine: str, mode: str
) -> None:
    paths = [table_of(tmp_path / f"t{files}", files) for files in (1, 2)]
    found = in_another_zone(machine, mode, paths)
    assert found == [json.loads(json.dumps(expected(files))) for _ in ZONES for files in (1, 2)]


def in_another_zone(machine: str, mode: str, paths: Sequence[str]) -> Any:
    """What a process whose machine is in the zone `machine` reads, for each of ZONES and each of `paths`."""
    program = f"""
import json, os, sys, time
os.environ["TZ"] = {machine!r}
time.tzset()
from pyspark.sql import SparkSession
from tests.connected import connected
from tests.spark.read.test_file_columns import ZONES, shown
builder = SparkSession.builder.config("spark.ui.enabled", "false")
spark = (connected(builder, "local[2]") if {mode!r} == "connect" else builder.master("local[2]")).getOrCreate()
found = []
for zone in ZONES:
    spark.conf.set("spark.sql.session.timeZone", zone)
    found += [shown(spark, path) for path in sys.argv[1:]]
print(json.dumps(found))
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *paths],
        check=True,
        capture_output=True,
        text=True,
        env={**environment(), "TZ": machine, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return json.loads(done.stdout.splitlines()[-1])
