from __future__ import annotations

import shlex
import shutil
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.errors import CommitOwnerUnavailable
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.scan.snapshot import Snapshot
from tests.cli.commands import document, error, lines, run, usage_error
from tests.stores.documents import blocks
from tests.transaction.tables import schema

SCHEMA = schema({"id": "long"})


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake of the tables `a` and `b`, of which `b` has a commit that is not backfilled."""
    root = str(tmp_path / "lake")
    owner = EmbeddedOwner.open(root, backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as opened:
        opened._create_log("a", SCHEMA)
        opened._create_log("b", SCHEMA)
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
    assert document("lake", "backfill", lake, "b") == [{"table": "b", "version": 1}]
    assert run("lake", "backfill", lake, "--csv").stdout == "table,version\na,0\nb,1\n"
    assert document("lake", "commits", lake, "b") == {"latestVersion": 1, "commits": []}


def test_repair_says_what_it_did(lake: str) -> None:
    assert lines("lake", "repair", lake) == ["b: versions 1 to 1 were backfilled"]
    assert lines("lake", "repair", lake, "b") == ["there was nothing to repair"]
    assert document("lake", "repair", lake) == []


def test_tables_come_and_go(lake: str) -> None:
    root = f"{lake}/b"
    assert lines("lake", "release", lake, "b") == []
    assert [each["name"] for each in document("lake", "tables", lake)] == ["a"]
    assert lines("lake", "adopt", lake, "again", root) == []
    assert [each["name"] for each in document("lake", "tables", lake)] == ["a", "again"]


@pytest.mark.parametrize(
    "command",
    [
        ("tables",),
        ("history",),
        ("backfill",),
        ("repair",),
        ("as-of", "2026-11-21"),
        ("commits", "a"),
        ("release", "a"),
        ("backup", "copy"),
    ],
)
def test_looking_for_a_lake_makes_none(command: tuple[str, ...], tmp_path: Path) -> None:
    name, *more = command
    message = error("lake", name, str(tmp_path / "no-lake"), *more)
    assert message.startswith(f"error: {tmp_path}/no-lake is not a lake: it has no _slackwater/owner.db. Create one ")
    database = f"sqlite:///{tmp_path}/o.db"
    message = error("lake", name, str(tmp_path / "no-lake"), *more, "--database", database)
    assert f"is not a lake: {tmp_path}/o.db does not exist" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "timeout_s"), [(("tables",), 10), (("locks",), 10), (("repair",), 60), (("drop", "a", "--yes"), 60)]
)
def test_who_looks_waits_less_for_a_server_than_who_changes_something(
    command: tuple[str, ...], timeout_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def connect(url: str, token: str | None, options: object, timeout_s: float, ca_file: str | None) -> None:
        waited.append(timeout_s)
        raise CommitOwnerUnavailable(f"{url} is not there")

    monkeypatch.setattr(LogLake, "connect", connect)
    name, *more = command
    assert error("lake", name, "https://nowhere.example", *more) == "error: https://nowhere.example is not there"
    assert waited == [timeout_s]


def test_a_lake_is_made_once(tmp_path: Path) -> None:
    told = document("lake", "create", str(tmp_path / "new"))
    assert told == {"location": (tmp_path / "new").as_uri(), "ownerId": told["ownerId"], "created": True}
    assert document("lake", "tables", str(tmp_path / "new")) == []
    assert f"is already a lake of the commit owner {told['ownerId']}" in error("lake", "create", str(tmp_path / "new"))
    assert document("lake", "create", str(tmp_path / "new"), "--if-not-exists") == told | {"created": False}
    assert error("lake", "create", "s3://bucket/lake").startswith("error: s3://bucket/lake: a lake in an object store")


def test_a_lake_whose_state_is_lost_is_not_made_anew(lake: str) -> None:
    shutil.rmtree(f"{lake}/_slackwater")
    assert "`slackwater lake recover`" in error("lake", "create", lake)


def test_a_table_gets_another_feature_for_its_commits(lake: str) -> None:
    result = run("lake", "migrate", lake, "b")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "b has catalogManaged\n")
    assert document("lake", "migrate", lake, "b") == {"table": "b", "feature": "catalogManaged", "changed": False}
    assert run("lake", "migrate", lake, "b", "--to", "managedCommit").stderr == "b has managedCommit\n"
    assert "managedCommit, catalogManaged, found 'x'" in error("lake", "migrate", lake, "b", "--to", "x")
    assert "Existing tables: a, b" in error("lake", "migrate", lake, "c")


def test_a_table_gets_another_name_and_stays_where_it_is(lake: str) -> None:
    (newest, *_) = document("lake", "history", lake)
    result = run("lake", "rename", lake, "b", "c")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "b is c now\n")
    found = {each["name"]: each for each in document("lake", "tables", lake)}
    assert sorted(found) == ["a", "c"]
    assert (found["c"]["location"].endswith("/lake/b"), found["c"]["ratifiedVersion"]) == (True, 3)
    then = document("lake", "as-of", lake, newest["timestamp"])["tables"]
    assert [(each["table"], each["version"]) for each in then] == [("a", 0), ("b", 1), ("c", 1)]
    assert "a table named 'a' already exists" in error("lake", "rename", lake, "c", "a")
    assert "a table name must consist of letters" in error("lake", "rename", lake, "c", "no name")
    assert "Existing tables: a, c" in error("lake", "rename", lake, "b", "d")
    assert sorted(each["name"] for each in document("lake", "tables", lake)) == ["a", "c"]


def test_a_table_is_dropped_where_that_is_meant(lake: str) -> None:
    assert "--yes / --keep-files" in usage_error("lake", "drop", lake, "b")
    assert len(document("lake", "tables", lake)) == 2
    kept = run("lake", "drop", lake, "b", "--keep-files")
    assert (kept.exit_code, kept.stderr) == (0, f"b is out of the lake; it is at {Path(lake).as_uri()}/b\n")
    assert Snapshot.load(f"{lake}/b").version == 2
    gone = run("lake", "drop", lake, "a", "--yes")
    assert (gone.exit_code, gone.stderr) == (0, "a is gone, and its files\n")
    assert not (Path(lake) / "a").exists()
    assert document("lake", "tables", lake) == []
    assert "no table named 'a' exists" in error("lake", "drop", lake, "a", "--yes")


def test_whoever_is_asked_may_say_no(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.lake.tables._somebody_answers", lambda: True)
    for answer, left in (("n\n", 2), ("y\n", 1)):
        asked = CliRunner().invoke(app, ["lake", "drop", lake, "a"], input=answer)
        assert "with all its versions?" in asked.output
        assert len(document("lake", "tables", lake)) == left


def test_transactions_are_shown_in_the_order_of_time(lake: str) -> None:
    records = document("lake", "history", lake)
    assert [(each["table"], each["version"], each["operation"]) for each in records] == [
        ("b", 1, "WRITE"),
        ("b", 0, "CREATE TABLE"),
        ("a", 0, "CREATE TABLE"),
    ]
    assert document("lake", "history", lake, "--limit", "1") == records[:1]
    shown = [line.split() for line in lines("lake", "history", lake)]
    assert shown[0] == ["timestamp", "(UTC)", "table", "version", "operation", "by", "noted"]
    assert shown[1][2:5] == ["b", "1", "WRITE"]
    csv = run("lake", "history", lake, "--csv").stdout.splitlines()
    assert csv[0] == "timestamp,transactionId,table,version,operation,userName,userMetadata,engineInfo"
    assert csv[1].startswith(f"{records[0]['timestamp']},{records[0]['transactionId']},b,1,WRITE,")


def test_a_moment_has_the_versions_of_all_tables(lake: str) -> None:
    newest, created, *_ = document("lake", "history", lake)
    then = document("lake", "as-of", lake, created["timestamp"])
    assert then["timestamp"] == created["timestamp"]
    assert [(each["table"], each["version"]) for each in then["tables"]] == [("a", 0), ("b", 0)]
    now = run("lake", "as-of", lake, newest["timestamp"])
    assert [line.split()[:2] for line in now.stdout.splitlines()[1:]] == [["a", "0"], ["b", "1"]]
    assert now.stderr == f"as of {newest['timestamp']}\n"
    assert document("lake", "as-of", lake, "2001-01-01")["tables"] == []
    before = run("lake", "as-of", lake, "2001-01-01")
    assert before.stdout == ""
    assert "2001-01-01T00:00:00.000Z the lake had no table: its first one was created later" in before.stderr
    assert "expected an instant" in error("lake", "as-of", lake, "yesterday")


def test_a_table_that_is_not_there_is_an_error_that_names_those_that_are(lake: str) -> None:
    result = run("lake", "commits", lake, "c")
    assert result.exit_code != 0
    assert "Existing tables: a, b" in result.stderr


def test_a_lake_is_backed_up_and_recovered(lake: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert lines("lake", "backup", lake, str(copy)) == []
    assert copy.is_file()
    assert "already exists" in run("lake", "backup", lake, str(copy)).stderr
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


def test_the_lines_of_the_page_about_recovery(lake: str, tmp_path: Path) -> None:
    (block,) = blocks("docs/recovery.md", "console")
    lines_of_it = block.replace("work/lake", lake).replace("work/owner", f"{tmp_path}/owner").splitlines()
    _created, backed_up, *recovered = lines_of_it
    for line in (backed_up, *recovered):
        if line == recovered[0]:
            shutil.rmtree(f"{lake}/_slackwater")
        program, *arguments = shlex.split(line, comments=True)
        assert (program, run(*arguments).exit_code) == ("slackwater", 0)
    assert (tmp_path / "owner-backup.db").is_file()
    assert len(document("lake", "tables", lake)) == 2


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
