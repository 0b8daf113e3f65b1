from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from tests.cli.commands import document, lines, run
from tests.transaction.tables import schema

SCHEMA = schema({"id": "long"})


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake of the tables `a` and `b`, of which `b` has a commit that is not backfilled."""
    root = str(tmp_path / "lake")
    owner = EmbeddedOwner.open(root, backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as opened:
        opened.create_log("a", SCHEMA)
        opened.create_log("b", SCHEMA)
        from slackwater import AddFile, Transaction

        transaction = Transaction(opened.snapshot("b"))
        transaction.add(AddFile("f.parquet", {}, 1, 1), fresh=True)
        transaction.commit("WRITE")
    return root


def test_tables_are_shown_with_how_far_they_have_come(lake: str) -> None:
    shown = [line.split() for line in lines("lake", "tables", lake)]
    assert shown[0][:3] == ["table", "version", "backfilled"]
    assert [row[:3] for row in shown[1:]] == [["a", "0", "0"], ["b", "1", "0"]]
    (a, b) = document("lake", "tables", lake)
    assert (a["name"], a["state"], b["ratifiedVersion"], b["backfilledVersion"]) == ("a", "active", 1, 0)
    assert b["location"].endswith("/lake/b")


def test_commits_that_are_not_backfilled_are_shown_until_they_are(lake: str) -> None:
    found = document("lake", "commits", lake, "b")
    (commit,) = found["commits"]
    assert (found["latestVersion"], commit["version"]) == (1, 1)
    assert (Path(lake) / "b" / "_delta_log" / "_commits" / commit["fileName"]).is_file()
    assert commit["fileName"] in run("lake", "commits", lake, "b").stdout
    assert lines("lake", "backfill", lake) == ["a: backfilled to version 0", "b: backfilled to version 1"]
    assert document("lake", "commits", lake, "b") == {"latestVersion": 1, "commits": []}


def test_repair_says_what_it_did(lake: str) -> None:
    assert lines("lake", "repair", lake) == ["b: versions 1 to 1 were backfilled"]
    assert lines("lake", "repair", lake, "b") == ["there was nothing to repair"]


def test_tables_come_and_go(lake: str) -> None:
    root = f"{lake}/b"
    assert lines("lake", "release", lake, "b") == []
    assert [each["name"] for each in document("lake", "tables", lake)] == ["a"]
    assert lines("lake", "adopt", lake, "again", root) == []
    assert [each["name"] for each in document("lake", "tables", lake)] == ["a", "again"]


def test_looking_for_a_lake_makes_none(tmp_path: Path) -> None:
    result = run("lake", "tables", str(tmp_path / "no-lake"))
    assert result.exit_code != 0
    assert "is not a lake" in result.stderr
    assert not (tmp_path / "no-lake").exists()


def test_a_table_that_is_not_there_is_an_error_that_names_those_that_are(lake: str) -> None:
    result = run("lake", "commits", lake, "c")
    assert result.exit_code != 0
    assert "there are a, b" in result.stderr


def test_a_lake_is_backed_up_and_recovered(lake: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert lines("lake", "backup", lake, str(copy)) == []
    assert copy.is_file()
    assert "is there already" in run("lake", "backup", lake, str(copy)).stderr
    shutil.rmtree(f"{lake}/_slackwater")
    missing = run("lake", "tables", lake)
    assert missing.exit_code != 0
    assert "slackwater lake recover" in missing.stderr
    (Path(lake) / "b" / "f.parquet").write_bytes(b"rows")
    expected = lines("lake", "recover", lake, "--dry-run")
    assert not (Path(lake) / "_slackwater").exists()
    told = lines("lake", "recover", lake)
    assert told[: len(expected)] == expected
    assert [line.partition(" ")[0] for line in told[:2]] == ["a", "b"]
    assert told[-1].startswith("the lake's commit owner is ")
    assert [(t["name"], t["ratifiedVersion"]) for t in document("lake", "tables", lake)] == [("a", 1), ("b", 2)]


def test_what_a_recovery_has_to_be_told_is_an_error_that_names_it(lake: str) -> None:
    (Path(lake) / "b" / "f.parquet").write_bytes(b"rows")
    commits = Path(lake) / "b" / "_delta_log" / "_commits"
    (first,) = [path for path in commits.iterdir() if path.name.startswith(f"{1:020}")]
    other = first.with_name(f"{1:020}.{uuid.uuid4()}.json")
    other.write_bytes(first.read_bytes().replace(b'"txnId":"', b'"txnId":"x'))
    shutil.rmtree(f"{lake}/_slackwater")
    result = run("lake", "recover", lake)
    assert result.exit_code != 0
    assert first.name in result.stderr.replace("\n", "")
    assert other.name in result.stderr.replace("\n", "")
    assert lines("lake", "recover", lake, "--counts-not", other.name)
