"""Command that checks the integrity of a table: `slackwater verify`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import Form, print_csv, print_human, print_json, print_note, table
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    StorageOption,
    TablePath,
    Version,
    form_of,
    storage_options,
)
from slackwater.cli.lake.lake_argument import WORK_S, CaFile, DatabaseUrl, Token, opened
from slackwater.html.number_format import counted
from slackwater.log.table import Table

if TYPE_CHECKING:
    from slackwater.lake.lake import LogLake
    from slackwater.maintenance.verify.findings import Verification
    from slackwater.owner.api.commits import ManagedTable

_FAULT = ("kind", "where", "says")


def verify_command(
    path: TablePath,
    version: Version = None,
    footers: Annotated[
        bool,
        typer.Option("--footers", help="Read the footers of all files, and compare the statistics with the footers."),
    ] = False,
    outside: Annotated[
        bool,
        typer.Option(
            "--allow-paths-outside-root", help="Trust the log, and check files outside the table's directory."
        ),
    ] = False,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="LAKE",
            help="Check the table with this name of the lake, and the other tables of its transactions.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Check the log against itself, its checksums and the table's files.

    Changes nothing. The exit code is 1 if a fault is found. Checks gaps between commits, in-commit timestamps,
    checkpoints and compactions against the commits, sidecars, version checksums; and for the version its files with
    their sizes, and deletion vectors. With --lake, also checks that each transaction over several tables is in the logs
    of all of them.

    Examples:
        slackwater verify /data/flights
        slackwater verify /data/flights --version 1 --footers
        slackwater verify departures --lake /data/lake
    """
    # Imported here, because only this command checks tables.
    from slackwater.maintenance.verify.verify import verify

    form = form_of(as_json, as_csv)
    with ExitStack() as opening, working("looking at the log and the files"):
        if lake is None:
            found = verify(Table.at(path, storage_options(storage_option), outside), version, footers)
        else:
            tables = opening.enter_context(opened(lake, database, token, ca_file, storage_option, WORK_S))
            known = {each.table_id: each for each in tables.tables()}
            found = verify(tables._table_of(tables.owner.table(path)), version, footers, partial(_of, tables, known))
    faults = [{"kind": each.kind.value, "where": each.where, "says": each.says} for each in found.faults]
    if form is Form.JSON:
        print_json(_document(found, faults))
    elif form is Form.CSV:
        print_csv(faults, _FAULT)
    else:
        if faults:
            print_human(table(_FAULT, [tuple(fault.values()) for fault in faults]))
        looked_at = ", ".join(f"{number} {what}" for what, number in found.looked_at.items() if number)
        print_note(f"looked at {found.location}, versions {found.oldest} to {found.version}: {looked_at or 'nothing'}")
        for note in found.notes:
            print_note(f"note: {note}")
        print_note(counted(len(faults), "fault") if faults else "no fault")
    if faults:
        raise typer.Exit(1)


def _of(lake: LogLake, known: Mapping[str, ManagedTable], table_id: str) -> tuple[str, Table] | None:
    """Return the name and the table with this id, None for a table that is not in the lake."""
    return (known[table_id].name, lake._table_of(known[table_id])) if table_id in known else None


def _document(found: Verification, faults: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "location": found.location,
        "oldestVersion": found.oldest,
        "version": found.version,
        "lookedAt": dict(found.looked_at),
        "notes": list(found.notes),
        "faults": faults,
    }
