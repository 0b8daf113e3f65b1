"""`slackwater verify`."""

from __future__ import annotations

import json
from pathlib import Path

from slackwater.lake.lake import LogLake
from tests.cli.commands import PARTITIONED, STAMPED, document, error, run
from tests.log.tables import TableLog, add


def test_a_whole_table_is_said_to_be_so() -> None:
    result = run("verify", PARTITIONED, "--footers")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        f"looked at {PARTITIONED}, versions 0 to 1: 2 commits, 6 data files, 6 footers",
        "no fault",
    ]
    told = document("verify", PARTITIONED)
    assert told == {
        "location": PARTITIONED,
        "oldestVersion": 0,
        "version": 1,
        "lookedAt": {"commits": 2, "data files": 6, "deletion vectors": 0},
        "notes": [],
        "faults": [],
    }
    assert run("verify", PARTITIONED, "--csv").stdout == "kind,where,says\n"


def test_faults_are_rows_and_the_exit_code_is_1() -> None:
    result = run("verify", STAMPED)
    assert result.exit_code == 1
    header, first, *_ = result.stdout.splitlines()
    assert header.split() == ["kind", "where", "says"]
    assert first.startswith("timestamp  _delta_log/00000000000000000001.json  its timestamp 1683874206883 is not after")
    assert result.stderr.endswith("2 faults\n")
    machine = run("verify", STAMPED, "--csv")
    assert machine.exit_code == 1
    assert [line.split(",")[0] for line in machine.stdout.splitlines()] == ["kind", "timestamp", "checksum"]
    assert run("verify", STAMPED, "--json").exit_code == 1
    assert run("verify", STAMPED, "--version", "0").exit_code == 0


def test_a_fault_of_any_name_does_not_steer_the_terminal(tmp_path: Path) -> None:
    TableLog(str(tmp_path)).create(add("[red]x\x1b[2J"))
    text = run("verify", str(tmp_path)).stdout
    assert "[red]x\\x1b[2J" in text
    assert "\x1b" not in text


def test_a_stray_file_of_an_absurd_version_is_told_in_every_form(tmp_path: Path) -> None:
    TableLog(str(tmp_path)).create(add("x"))
    (tmp_path / "_delta_log" / f"{'9' * 20}.json").write_bytes(b"")
    told = json.loads(run("verify", str(tmp_path), "--json").stdout)
    assert told["version"] == 10**20 - 1
    assert [fault["kind"] for fault in told["faults"]].count("gap") == 2
    assert f"versions 1 to {10**20 - 2}" in run("verify", str(tmp_path)).stdout
    assert f"gap,versions 1 to {10**20 - 2}," in run("verify", str(tmp_path), "--csv").stdout


def test_what_is_no_table_is_one_plain_line(tmp_path: Path) -> None:
    assert "is not a Delta table" in error("verify", str(tmp_path))
    assert "has no version 9: its newest version is 1" in error("verify", PARTITIONED, "--version", "9")


def test_with_the_lake_the_transactions_over_several_tables_are_compared(tmp_path: Path) -> None:
    properties = {"delta.feature.multiTableTransaction-dev": "supported"}
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    with LogLake.open(tmp_path) as lake:
        for name in ("orders", "stock"):
            lake._create_log(name, schema, properties=properties)
        with lake.transaction() as tx:
            for name in ("orders", "stock"):
                log = tx.log(name)
                log.set_transaction(name, 1)
                log.commit("WRITE")
    told = document("verify", "orders", "--lake", str(tmp_path))
    assert told["lookedAt"]["multi-table transactions"] == 1
    assert (told["version"], told["notes"], told["faults"]) == (1, [], [])
    assert "--lake" in document("verify", str(tmp_path / "orders"))["notes"][-1]
    said = error("verify", "nowhere", "--lake", str(tmp_path))
    assert "no table named 'nowhere'" in said
