"""Commands that maintain a table's files: `slackwater vacuum | restore | clone`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import Form, print_csv, print_done, print_json, print_note
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    Outside,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    form_of,
    moment_ms,
    storage_options,
)
from slackwater.html.number_format import counted, format_bytes
from slackwater.log.table import Table
from slackwater.maintenance.vacuum_request import UNTRACKED_HOURS, VacuumRequest
from slackwater.scan.snapshot import Snapshot


def vacuum_command(
    path: TablePath,
    retention_hours: Annotated[
        float | None,
        typer.Option(
            "--retention-hours",
            metavar="HOURS",
            help="Retention in hours. Versions current within this period stay readable.",
            show_default="delta.deletedFileRetentionDuration",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files to delete, and delete nothing.")] = False,
    lite: Annotated[
        bool, typer.Option("--lite", help="Find files by the log only, without listing the directory.")
    ] = False,
    retention_check: Annotated[
        bool,
        typer.Option("--retention-check/--no-retention-check", help="Reject a retention shorter than the table's."),
    ] = True,
    untracked_hours: Annotated[
        float,
        typer.Option(
            "--untracked-hours", metavar="HOURS", help="Minimum age in hours of deleted files never named by the log."
        ),
    ] = UNTRACKED_HOURS,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Delete files not needed by any version within the retention.

    Examples:
        slackwater vacuum /data/flights --dry-run
    """
    # Imported here, because other commands do not need the writers of tables.
    from slackwater.maintenance.vacuum import vacuum

    form = form_of(as_json, as_csv)
    request = VacuumRequest(retention_hours, dry_run, lite, untracked_hours=untracked_hours)
    table = _table(path, storage_option)
    with working("looking for files that nobody needs") as line:
        asked = replace(request, checks_retention=retention_check)
        result = vacuum(table, asked, deleting=lambda done, total: line.at("deleting files", done, total))
    if form is Form.JSON:
        print_json({"paths": list(result.paths), "sizeInBytes": result.size_bytes, "dryRun": result.dry_run})
        return
    if form is Form.CSV:
        print_csv(({"path": path} for path in result.paths), ("path",))
    elif dry_run:
        for file in result.paths:
            typer.echo(file)
    done = "would be deleted" if dry_run else "deleted"
    print_note(f"{counted(len(result.paths), 'file')} {done}, {_size(result.size_bytes)}")


def restore_command(
    path: TablePath,
    version: Annotated[
        int | None, typer.Option("--version", min=0, metavar="VERSION", help="Version to restore.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIMESTAMP",
            help="Time to restore, for example 2026-11-21T10:00:00Z. Without a time zone: UTC.",
        ),
    ] = None,
    ignore_missing_files: Annotated[
        bool, typer.Option("--ignore-missing-files", help="Restore even if VACUUM deleted files of the version.")
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Restore the table to an earlier version, by a new commit.

    Exactly one of --version and --timestamp is required.

    Examples:
        slackwater restore /data/flights --version 1
    """
    from slackwater.maintenance.restore import restore

    form = form_of(as_json, as_csv)
    if (version is None) == (timestamp is None):
        raise typer.BadParameter("use a version or a timestamp", param_hint="--version / --timestamp")
    moment = moment_ms(timestamp)
    with working("comparing versions"):
        result = restore(_table(path, storage_option), version, moment, ignore_missing_files, said=timestamp)
    came, went = counted(result.num_restored_files, "file"), counted(result.num_removed_files, "file")
    left, size = counted(result.num_of_files_after_restore, "file"), _size(result.table_size_after_restore)
    print_done(form, result.to_dict(), lambda: print_note(f"{came} came back, {went} went; now {left}, {size}"))


def clone_command(
    path: TablePath,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Directory or URL of the clone.", show_default=False)],
    version: Version = None,
    timestamp: Timestamp = None,
    outside: Outside = True,
    replace_table: Annotated[bool, typer.Option("--replace", help="Replace an existing table at TARGET.")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Create a shallow clone: an independent table over the files of another table, without copying them.

    Examples:
        slackwater clone /data/flights /data/flights_test
    """
    from slackwater.maintenance.clone import shallow_clone

    form = form_of(as_json, as_csv)
    if version is not None and timestamp is not None:
        raise typer.BadParameter("use a version or a timestamp, not both", param_hint="--version / --timestamp")
    with working("listing files"):
        source = Snapshot.open(_table(path, storage_option, outside), version, moment_ms(timestamp))
        result = shallow_clone(source, _table(target, storage_option), replace_table)
    files, size = counted(result.source_num_of_files, "file"), _size(result.source_table_size)
    said = f"{target} has the {files} of version {source.version}, {size}, where they are"
    print_done(form, result.to_dict(), lambda: print_note(said))


def _size(size_bytes: int) -> str:
    text = format_bytes(size_bytes)
    return f"{text} B" if text.isdigit() else text


def _table(path: str, storage_option: list[str] | None, follows_outside: bool = True) -> Table:
    return Table.at(path, storage_options(storage_option), follows_outside)
