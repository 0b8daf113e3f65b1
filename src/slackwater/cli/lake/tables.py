"""Commands on the tables of a lake: `slackwater lake tables | commits | backfill | adopt | rename | …`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import (
    Form,
    print_csv,
    print_done,
    print_human,
    print_json,
    print_lines,
    print_note,
    print_rows,
    table,
)
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of
from slackwater.cli.common.watch import Watch, watched
from slackwater.cli.lake.lake_argument import (
    WORK_S,
    AnyTableName,
    CaFile,
    DatabaseUrl,
    LakePath,
    TableName,
    Token,
    moment,
    opened,
)
from slackwater.html.number_format import format_bytes
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED

if TYPE_CHECKING:
    from slackwater.owner.api.commits import ManagedTable


def tables(
    path: LakePath,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the tables with their ratified and backfilled versions.

    Examples:
        slackwater lake tables /data/lake
        slackwater lake tables /data/lake --watch 5
        slackwater lake tables https://localhost:8443 --ca-file /data/cert.pem
    """
    form = form_of(as_json, as_csv)

    def show() -> None:
        with opened(path, database, token, ca_file, storage_option) as lake:
            found = lake.tables()
        print_rows(form, [_record(each) for each in found], _RECORD, lambda: _print_tables(found))

    watched(watch, show)


def commits(
    path: LakePath,
    name: TableName,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the ratified commits of a table not yet backfilled.

    Examples:
        slackwater lake commits /data/lake flights
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option) as lake:
        found = lake.owner.get_commits(lake.owner.table(name).table_id, 0)
    keys = ("version", "timestamp", "fileName", "sizeInBytes")
    records = [
        dict(zip(keys, (c.version, moment(c.timestamp_ms), c.file_name, c.size_bytes), strict=True))
        for c in found.commits
    ]
    if form is Form.JSON:
        print_json({"latestVersion": found.latest_version, "commits": records})
        return
    if form is Form.CSV:
        print_csv(records, keys)
        return
    rows = [(c.version, moment(c.timestamp_ms), format_bytes(c.size_bytes), c.file_name) for c in found.commits]
    print_human(table(("version", "timestamp (UTC)", "size", "file"), rows, right=("version", "size")))
    print_note(f"latest version: {found.latest_version}")


def backfill(
    path: LakePath,
    name: AnyTableName = None,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Copy every ratified commit to the log read by all engines.

    Examples:
        slackwater lake backfill /data/lake
    """
    form = form_of(as_json, as_csv)
    records: list[dict[str, Any]] = []
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        names = [name] if name is not None else [t.name for t in lake.tables()]
        try:
            with working("copying commits") as progress:
                for each in names:
                    progress.at(f"copying commits of {each}", len(records), len(names))
                    records.append({"table": each, "version": lake.backfill(each)})
        finally:
            # Also after an error: list the tables backfilled before it.
            for record in records if form is Form.HUMAN else ():
                typer.echo(f"{record['table']}: backfilled to version {record['version']}")
    if form is not Form.HUMAN:
        print_rows(form, records, ("table", "version"), lambda: None)


def adopt(
    path: LakePath,
    name: TableName,
    location: Annotated[str, typer.Argument(metavar="PATH", help="Directory or URL of the table.")],
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Adopt a table of the file system. All later writes go through the lake.

    Examples:
        slackwater lake adopt /data/lake flights /data/flights
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        lake.adopt(name, location)
    print_done(form, {"table": name, "location": location})


def release(
    path: LakePath,
    name: TableName,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Release a table to the file system.

    Examples:
        slackwater lake release /data/lake departures
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        location = lake.owner.table(name).location
        lake.release(name)
    print_done(form, {"table": name, "location": location})


def rename(
    path: LakePath,
    name: TableName,
    to: Annotated[str, typer.Argument(metavar="NEW_NAME", help="New name of the table.", show_default=False)],
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Rename a table; its files and versions stay at their location.

    The table is released and adopted: two commits. Time slices of earlier times contain the table under both names.

    Examples:
        slackwater lake rename /data/lake flights departures
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        lake.rename_table(name, to)
    print_done(form, {"table": to, "before": name}, lambda: print_note(f"{name} is {to} now"))


def migrate(
    path: LakePath,
    name: TableName,
    to: Annotated[
        str, typer.Option("--to", metavar="FEATURE", help="Feature of the commits: catalogManaged or managedCommit.")
    ] = CATALOG_MANAGED.feature,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Migrate a table to another feature for its commits.

    The table is released and adopted: two commits. With catalogManaged, readers need the lake too.

    Examples:
        slackwater lake migrate /data/lake flights
        slackwater lake migrate /data/lake flights --to managedCommit
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        is_changed = lake.migrate(name, to)
    state = "has" if is_changed else "already has"
    print_done(form, {"table": name, "feature": to, "changed": is_changed}, lambda: print_note(f"{name} {state} {to}"))


def drop(
    path: LakePath,
    name: TableName,
    keep_files: Annotated[
        bool | None,
        typer.Option(
            "--keep-files/--delete-files",
            help="Keep or delete the files of the table.",
            show_default="delete if the lake created the directory",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Remove a table from the lake permanently, with its files and so with all versions.

    With --keep-files it is a table of the file system from then on, as after `release`.

    Examples:
        slackwater lake drop /data/lake flights --keep-files
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake:
        location = lake.owner.table(name).location
        if not (yes or keep_files):
            if not _somebody_answers():
                raise typer.BadParameter("confirm the deletion, or keep its files", param_hint="--yes / --keep-files")
            typer.confirm(f"Drop {name}, at {location}, with all its versions?", abort=True, err=True)
        were_deleted = lake.drop_table(name, keep_files)
    said = f"{name} is gone, and its files" if were_deleted else f"{name} is out of the lake; it is at {location}"
    done = {"table": name, "location": location, "filesDeleted": were_deleted}
    print_done(form, done, lambda: print_note(said))


def repair(
    path: LakePath,
    name: AnyTableName = None,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Complete interrupted work, remove unneeded files, report irreparable faults, and list all actions.

    Examples:
        slackwater lake repair /data/lake
    """
    form = form_of(as_json, as_csv)
    at = f"looking at {name or 'all tables'}"
    with opened(path, database, token, ca_file, storage_option, WORK_S) as lake, working(at):
        done = lake.repair(name)
    print_lines(form, done, "there was nothing to repair")


def _somebody_answers() -> bool:
    return sys.stdin.isatty()


_RECORD = (
    "tableId",
    "name",
    "location",
    "state",
    "ratifiedVersion",
    "backfilledVersion",
    "timestamp",
    "problem",
)


def _record(found: ManagedTable) -> dict[str, Any]:
    return dict(
        zip(
            _RECORD,
            (
                found.table_id,
                found.name,
                found.location,
                found.state.value,
                found.ratified_version,
                found.backfilled_version,
                moment(found.timestamp_ms),
                found.problem,
            ),
            strict=True,
        )
    )


def _print_tables(found: Sequence[ManagedTable]) -> None:
    headers = ("table", "version", "backfilled", "last commit (UTC)", "state", "location")
    rows = [
        (t.name, t.ratified_version, t.backfilled_version, moment(t.timestamp_ms), t.problem or t.state.value,
         t.location)
        for t in found
    ]  # fmt: skip
    print_human(table(headers, rows, right=("version", "backfilled")))
