"""Who the history says made a commit: what was said, what is set, or the user of the process."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

import slackwater
from slackwater.lake.lake import LogLake
from slackwater.log.table_detail import describe_history
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import USER_NAME_VARIABLE, Clock, CommitAuthor, system_user

SCHEMA = StructType((StructField("id", LONG),))


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name is set by the environment of the tests."""
    monkeypatch.delenv(USER_NAME_VARIABLE, raising=False)


def _who(path: Path) -> list[tuple[str | None, str | None]]:
    return [(row["userId"], row["userName"]) for row in describe_history(Snapshot.load(path))]


def test_a_commit_is_of_the_user_of_the_process(tmp_path: Path) -> None:
    slackwater.Transaction.create(tmp_path, SCHEMA).commit("CREATE TABLE")
    assert _who(tmp_path) == [(str(os.geteuid()), pwd.getpwuid(os.geteuid()).pw_name)]


def test_a_name_that_is_said_goes_before_one_of_the_environment_and_that_before_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(USER_NAME_VARIABLE, "nightly")
    slackwater.Transaction.create(tmp_path, SCHEMA).commit("CREATE TABLE")
    said = slackwater.Transaction(tmp_path)
    said.set_transaction("a", 1)
    said.commit("WRITE", user_name="Ada")
    monkeypatch.setenv(USER_NAME_VARIABLE, "")
    unsaid = slackwater.Transaction(tmp_path)
    unsaid.set_transaction("a", 2)
    unsaid.commit("WRITE")
    own = str(os.geteuid())
    assert _who(tmp_path) == [(own, pwd.getpwuid(os.geteuid()).pw_name), (own, "Ada"), (own, "nightly")]


def test_the_environments_user_does_not_pass_for_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("LOGNAME", "somebody-else")
    assert system_user().user_name == pwd.getpwuid(os.geteuid()).pw_name


def test_a_user_that_the_system_does_not_know_is_named_by_the_environment_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("LOGNAME", "container")
    assert system_user() == CommitAuthor(str(os.geteuid()), "container")
    nobody = Clock(user=lambda: CommitAuthor(None, None))
    slackwater.Transaction.create(tmp_path, SCHEMA, clock=nobody).commit("CREATE TABLE")
    assert _who(tmp_path) == [(None, None)]


def test_transactions_over_several_tables_and_services_of_a_lake_say_who(tmp_path: Path) -> None:
    own = pwd.getpwuid(os.geteuid()).pw_name
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("a", "b"):
            lake._create_log(name, SCHEMA, user_name="maker")
        with lake.transaction() as tx:
            for name in ("a", "b"):
                work = tx.log(name)
                work.set_transaction("app", 1)
                work.commit("WRITE")
            # Two commits of one table become one.
            work = tx.log("a")
            work.set_transaction("other", 1)
            work.commit("WRITE", user_name="second")
        lake.restore(lake.history()[1].timestamp, user_name="undoer")
        told = [{name: c.user_name for name, c in commit.commits.items()} for commit in lake.history()]
    assert told == [{"a": "undoer", "b": "undoer"}, {"a": "second", "b": own}, {"b": "maker"}, {"a": "maker"}]
