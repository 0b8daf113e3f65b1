"""The owner's database: migrations, transactions, and a server that comes and goes."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import OperationalError

from slackwater.errors import CommitOwnerUnavailable, CommitUnknown, InvalidArgument, UnsupportedFeature
from slackwater.owner.database.database import HEAD, Database
from slackwater.owner.database.schema import metadata, owner, tables
from slackwater.owner.served.tokens import Tokens
from tests.contract.owners import DATABASES, OwnedLake, at_once, created, eventually, landed, new_lake
from tests.contract.postgres import PostgresServer, shared_server
from tests.owner.database.migrating import repeated_migrations


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return new_url(request.param, tmp_path / "owner.db")


def new_url(kind: str, path: Path) -> str:
    return shared_server().new_database() if kind == "postgres" else f"sqlite:////{path.as_posix().strip('/')}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    found = Database(url)
    yield found
    found.close()


# Migrations.


def shape(connection: sa.Connection) -> dict[str, Any]:
    """All that an inspection tells of the tables."""
    found = sa.inspect(connection)
    return {
        name: {
            "columns": [{**column, "type": str(column["type"]), "comment": None} for column in found.get_columns(name)],
            "key": found.get_pk_constraint(name)["constrained_columns"],
            "references": [{**key, "name": None} for key in found.get_foreign_keys(name)],
            "indexes": sorted(
                ({**index, "dialect_options": _texts(index)} for index in found.get_indexes(name)),
                key=lambda index: str(index["name"]),
            ),
            "unique": [unique["column_names"] for unique in found.get_unique_constraints(name)],
        }
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def _texts(index: Any) -> dict[str, str]:
    return {key: str(value) for key, value in index.get("dialect_options", {}).items()}


def test_migrations_make_what_the_queries_name(url: str, database: Database, tmp_path: Path) -> None:
    migrated = database.read(shape)
    assert set(migrated) == set(metadata.tables)
    declared = Database(new_url("postgres" if "postgresql" in url else "sqlite", tmp_path / "declared.db"))

    def make(connection: sa.Connection) -> None:
        metadata.drop_all(connection)
        metadata.create_all(connection)

    declared.write(make)
    assert declared.read(shape) == migrated
    declared.close()


def test_what_is_done_again_for_a_new_database_is_all_that_alembic_did(url: str, tmp_path: Path) -> None:
    kind = "postgres" if "postgresql" in url else "sqlite"
    with repeated_migrations() as known:
        Database(url).close()
        ((_, statements),) = known.items()
        assert sum("CREATE TABLE" in statement for statement, _ in statements) > len(metadata.tables)
        found = [Database(each) for each in (url, new_url(kind, tmp_path / "second.db"))]
        first, second = (each.read(lambda c: (shape(c), _revisions(c))) for each in found)
        assert first == second
        assert second[1] == [HEAD]
        statements.clear()
        third = Database(new_url(kind, tmp_path / "third.db"))
        assert third.read(shape) == {}, "it was made by these statements, and by nothing else"
    for each in (*found, third):
        each.close()


def _revisions(connection: sa.Connection) -> list[str]:
    return list(connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalars())


def test_a_name_and_a_place_are_free_again_when_a_table_is_released(database: Database) -> None:
    def insert(table_id: str, state: str) -> None:
        values = dict.fromkeys((c.name for c in tables.columns if isinstance(c.type, sa.BigInteger)), 0)
        row = {**values, "table_id": table_id, "name": "n", "location": "l", "state": state, "problem": ""}
        database.write(lambda c: c.execute(sa.insert(tables).values(row)))

    insert("a", "released")
    insert("b", "released")
    insert("c", "active")
    with pytest.raises(sa.exc.IntegrityError):
        insert("d", "proposed")


def test_the_database_of_a_newer_version_is_refused(url: str, database: Database) -> None:
    database.write(lambda c: c.execute(sa.text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(UnsupportedFeature, match=rf"newer version .*revision: 9999, supported: {HEAD}.*Upgrade"):
        Database(url)


def test_the_newest_revision_is_the_one_that_is_looked_for() -> None:
    from alembic.script import ScriptDirectory

    assert ScriptDirectory.from_config(alembic()).get_current_head() == HEAD


def alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("slackwater.owner.database") / "migrations"))
    return config


def test_a_downgrade_leaves_nothing_and_an_upgrade_makes_it_anew(url: str, database: Database) -> None:
    before = database.read(shape)

    def downgrade(connection: sa.Connection) -> None:
        config = alembic()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")

    database.write(downgrade)
    assert database.read(shape) == {}
    again = Database(url)
    assert again.read(shape) == before
    again.close()


def test_tokens_of_earlier_releases_keep_access_to_all_tables(url: str, database: Database) -> None:
    def earlier(connection: sa.Connection) -> None:
        config = alembic()
        config.attributes["connection"] = connection
        command.downgrade(config, "0006")
        row = "INSERT INTO tokens (token_hash, name, scopes, created_ms) VALUES ('h', 'loader', 'commit', 1)"
        connection.execute(sa.text(row))

    database.write(earlier)
    upgraded = Database(url)
    assert [(record.name, record.grants) for record in Tokens(upgraded).records()] == [("loader", None)]
    upgraded.close()


def test_several_that_open_an_empty_database_migrate_it_once(url: str) -> None:
    opened = at_once(*[lambda: Database(url)] * 5)
    assert all(isinstance(found, Database) for found in opened), opened
    for found in opened:
        assert found.read(lambda c: c.execute(sa.text("SELECT count(*) FROM alembic_version")).scalar()) == 1
        found.close()


def test_threads_that_open_databases_of_their_own_migrate_them_beside_each_other(tmp_path: Path) -> None:
    urls = [new_url("sqlite", tmp_path / f"{number}.db") for number in range(6)]
    opened = at_once(*(partial(Database, url) for url in urls))
    assert all(isinstance(found, Database) for found in opened), opened
    for found in opened:
        found.close()


def test_a_database_that_is_open_is_not_migrated_again(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "_upgrade", None)
    Database(url).close()


# Transactions.


def last_ms(database: Database) -> list[int]:
    return list(database.read(lambda c: c.execute(sa.select(owner.c.last_ms)).scalars().all()))


def insert_owner(connection: sa.Connection, last: int = 1) -> None:
    connection.execute(sa.insert(owner).values(owner_id=str(last), created_ms=1, last_ms=last))


def test_a_write_that_fails_undoes_everything(database: Database) -> None:
    def work(connection: sa.Connection) -> None:
        insert_owner(connection)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(work)
    assert last_ms(database) == []
    database.write(insert_owner)
    assert last_ms(database) == [1]


def test_a_write_whose_answer_was_lost_is_run_again(url: str) -> None:
    waits: list[float] = []
    found = Database(url, sleep=waits.append)
    runs: list[int] = []

    def work(connection: sa.Connection) -> int:
        runs.append(len(runs))
        if len(runs) < 3:
            raise OperationalError("SELECT secret", {}, Exception("the connection broke"))
        insert_owner(connection, len(runs))
        return len(runs)

    assert found.write(work) == 3
    assert last_ms(found) == [3]
    assert len(waits) == 2
    assert waits[0] < waits[1]
    found.close()


def test_a_database_that_stays_away_is_unavailable_after_a_while(url: str) -> None:
    waits: list[float] = []
    found = Database(url, patience_s=3.0, sleep=waits.append)

    def work(connection: sa.Connection) -> None:
        raise OperationalError("SELECT secret", {}, Exception("the connection broke"))

    with pytest.raises(
        CommitOwnerUnavailable, match=r"does not respond: the connection broke\. Check that it runs"
    ) as caught:
        found.write(work)
    assert "secret" not in str(caught.value)
    assert 3.0 <= sum(waits) < 4.0
    assert max(waits) <= 0.5
    found.close()


def test_errors_of_the_work_itself_are_not_tried_again(database: Database) -> None:
    database.write(insert_owner)
    with pytest.raises(sa.exc.IntegrityError):
        database.write(insert_owner)


def test_writes_of_many_threads_and_owners_are_all_counted(url: str) -> None:
    opened = [Database(url) for _ in range(3)]
    opened[0].write(lambda c: insert_owner(c, 0))

    def add_one(connection: sa.Connection) -> None:
        found = connection.execute(sa.select(owner.c.last_ms).with_for_update()).scalar_one()
        connection.execute(sa.update(owner).values(last_ms=found + 1))

    def work(number: int) -> None:
        for _ in range(10):
            opened[number % 3].write(add_one, durable=number % 2 == 0)

    assert at_once(*(lambda n=n: work(n) for n in range(6))) == [None] * 6
    assert last_ms(opened[1]) == [60]
    for found in opened:
        found.close()


def test_a_read_sees_one_state_while_others_write(url: str) -> None:
    reader, writer = Database(url), Database(url)
    writer.write(lambda c: insert_owner(c, 1))
    looked, written = threading.Event(), threading.Event()

    def look(connection: sa.Connection) -> list[int]:
        query = sa.select(owner.c.last_ms)
        first = connection.execute(query).scalar_one()
        looked.set()
        assert written.wait(30)
        return [first, connection.execute(query).scalar_one()]

    def write() -> None:
        assert looked.wait(30)
        try:
            writer.write(lambda c: c.execute(sa.update(owner).values(last_ms=2)))
        finally:
            written.set()

    seen, none = at_once(lambda: reader.read(look), write)
    assert (seen, none) == ([1, 1], None)
    assert last_ms(reader) == [2]
    reader.close()
    writer.close()


# URLs.


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://u:p4ssw0rd@h/d", "SQLite or PostgreSQL, found 'mysql'"),
        ("sqlite://", "not memory"),
        ("sqlite:///:memory:", "not memory"),
        ("p4ssw0rd", "cannot be read"),
        ("", "cannot be read"),
        ("postgresql+nosuchdriver://u:p4ssw0rd@h/d", "driver"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        Database(url)
    assert "p4ssw0rd" not in str(caught.value)


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    url = f"postgresql://u:p4ssw0rd@/d?host={tmp_path}"
    with pytest.raises(CommitOwnerUnavailable, match=r"postgresql\+psycopg:///d does not respond") as caught:
        Database(url, patience_s=0.0)
    assert "p4ssw0rd" not in str(caught.value)


def test_a_place_where_no_database_can_be_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CommitOwnerUnavailable, match="for the commit owner's database"):
        Database(f"sqlite:////{tmp_path}/file/owner.db")


# A server that comes and goes.


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    server = shared_server()
    yield server
    if not server.is_running:
        server.start()


@pytest.fixture
def lake(postgres: PostgresServer, tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, "postgres")
    yield found
    found.close()
    # Connections that broke while others noticed it are let go by the pool without being closed.
    gc.collect()


broken_connections = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@broken_connections
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_an_owner_goes_on_after_its_server_was_away(postgres: PostgresServer, lake: OwnedLake, how: str) -> None:
    table = created(lake, lake.embedded())
    before = [response.commit.timestamp_ms for response in table.commits(3)]
    if how == "restart":
        postgres.restart()
    else:
        postgres.kill()
        postgres.start()
    assert table.latest == 3
    assert table.commit(4).commit.timestamp_ms > before[-1]
    assert len(table.ids()) == 5


@broken_connections
def test_commits_of_many_threads_across_restarts_of_the_server_land_once(
    postgres: PostgresServer, lake: OwnedLake
) -> None:
    table = created(lake, lake.embedded())
    told: list[str] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            request = table.append(1)
            outcome = None
            while outcome is None:
                try:
                    outcome = table.owner.commit(request)
                except (CommitOwnerUnavailable, CommitUnknown):
                    request = replace(request, is_replay=True)
            landed(outcome)
            told.append(request.commit_id)

    def come_and_go() -> None:
        try:
            for _ in range(2):
                seen = len(told)
                eventually(lambda seen=seen: len(told) >= seen + 5)  # type: ignore[misc]
                postgres.kill()
                postgres.start()
        finally:
            stop.set()

    assert at_once(write, write, write, come_and_go) == [None] * 4
    assert sorted(table.ids()[1:]) == sorted(told)


@broken_connections
def test_what_an_owner_cannot_record_is_said_to_be_so(postgres: PostgresServer, lake: OwnedLake) -> None:
    owner_ = lake.embedded()
    table = created(lake, owner_)
    owner_.database._patience_s = 0.0
    postgres.stop()
    with pytest.raises(CommitOwnerUnavailable, match="does not respond"):
        table.owner.commit(table.request(1))
    with pytest.raises(CommitOwnerUnavailable):
        table.owner.get_commits(table.table_id, 0)
    postgres.start()
    owner_.database._patience_s = 10.0
    assert table.commit(1).commit.version == 1


@broken_connections
def test_a_server_that_takes_no_writes_yet_is_waited_for_and_then_said_to_be_so(
    postgres: PostgresServer, lake: OwnedLake
) -> None:
    owner_ = lake.embedded()
    table = created(lake, owner_)
    with psycopg.connect(lake.database, autocommit=True) as connection:
        name = connection.info.dbname

        def let_write(takes_writes: bool) -> None:
            value = "off" if takes_writes else "on"
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = {value}")
            owner_.database._engine.dispose()

        connection.execute("SET default_transaction_read_only = off")
        let_write(False)
        owner_.database._patience_s = 0.0
        with pytest.raises(
            CommitOwnerUnavailable, match=r"read-only transaction\. .* accepts writes, unlike a standby"
        ):
            table.commit(1)
        owner_.database._patience_s = 10.0
        owner_.database._sleep = lambda _: let_write(True)
        assert table.commit(1).commit.version == 1


@broken_connections
def test_a_commit_whose_ratification_is_not_answered_is_unknown(postgres: PostgresServer, lake: OwnedLake) -> None:
    def stop(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("after", "put") and "00001." in path:
            postgres.stop()

    owner_ = lake.embedded(step=stop, lease_ms=0)
    table = created(lake, owner_)
    owner_.database._patience_s = 0.0
    request = table.request(1)
    with pytest.raises(CommitUnknown, match="its outcome is unknown, because the commit owner's database"):
        owner_.commit(request)
    postgres.start()
    again = replace(table, owner=lake.embedded())
    owner_.database._patience_s = 10.0
    assert landed(again.owner.commit(replace(request, is_replay=True))).commit.version == 1
    assert again.ids()[1:] == [request.commit_id]


def test_a_transaction_that_is_cut_off_after_a_long_time_is_tried_again(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/owner.db", patience_s=0.05)
    runs = []

    def cut_off_once(connection: sa.Connection) -> str:
        runs.append(1)
        if len(runs) == 1:
            time.sleep(0.2)
            raise OperationalError("SELECT", None, Exception("the server closed the connection"))
        return "done"

    assert database.read(cut_off_once) == "done"
    database.close()
