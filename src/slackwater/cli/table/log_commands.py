"""Commands that maintain a table's log: `slackwater log checkpoint | compact | cleanup`."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.common.help import Commands, HelpGroup
from slackwater.cli.common.progress import working
from slackwater.cli.common.render import print_done, print_note
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, TablePath, form_of, storage_options
from slackwater.html.number_format import counted
from slackwater.scan.snapshot import Snapshot

log_app = Commands(
    cls=HelpGroup,
    help="""Maintain the log of a table now, before automatic maintenance is due.

    Examples:
        slackwater log checkpoint /data/flights
        slackwater log cleanup /data/flights
    """,
    no_args_is_help=True,
)


@log_app.command(name="checkpoint")
def checkpoint_command(
    path: TablePath, as_json: AsJson = False, as_csv: AsCsv = False, storage_option: StorageOption = None
) -> None:
    """Write a checkpoint of the newest version, so that readers skip older commits.

    Examples:
        slackwater log checkpoint /data/flights
    """
    # Imported here, because other commands do not need the writers of a log.
    from slackwater.transaction.clock import Clock
    from slackwater.transaction.log_maintenance import checkpoint_newest

    form = form_of(as_json, as_csv)
    with working("writing a checkpoint"):
        info = checkpoint_newest(_load(path, storage_option), Clock().now_ms())
    said = f"checkpoint of version {info.version}: {info.path}, {counted(info.num_add_files, 'file')}"
    done = {"version": info.version, "path": info.path, "files": info.num_add_files}
    print_done(form, done, lambda: print_note(said))


@log_app.command(name="compact")
def compact_command(
    path: TablePath,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=0,
            metavar="VERSION",
            help="First version, inclusive.",
            show_default="after the newest checkpoint",
        ),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="VERSION", help="Last version, inclusive.", show_default="newest"),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Write one file for many commits, so that readers open one file instead of many.

    The commits remain.

    Examples:
        slackwater log compact /data/flights --from 0 --to 2
    """
    from slackwater.transaction.log_maintenance import compact

    form = form_of(as_json, as_csv)
    with working("writing commits into one file"):
        written = compact(_load(path, storage_option), start, end)
    print_done(form, {"path": written}, lambda: print_note(f"compacted into {written}"))


@log_app.command(name="cleanup")
def cleanup_command(
    path: TablePath, as_json: AsJson = False, as_csv: AsCsv = False, storage_option: StorageOption = None
) -> None:
    """Delete log files older than delta.logRetentionDuration and not needed by a retained version.

    Examples:
        slackwater log cleanup /data/flights
    """
    from slackwater.transaction.clock import Clock
    from slackwater.transaction.log_maintenance import clean_up

    form = form_of(as_json, as_csv)
    with working("deleting what is old"):
        done = clean_up(_load(path, storage_option), Clock().now_ms())
    kept = {"cutoffVersion": done.cutoff_version, "checkpointVersion": done.checkpoint_version}
    if done.protected_before is not None:
        kept["protectedBeforeVersion"] = done.protected_before
    why = "" if done.protected_before is None else f": checkpoints before version {done.protected_before} are protected"
    print_done(
        form,
        {"deleted": list(done.deleted), **kept},
        lambda: print_note(f"{counted(len(done.deleted), 'file')} of the log deleted{why}"),
        [{"deleted": each} for each in done.deleted],
        ("deleted",),
    )


def _load(path: str, storage_option: list[str] | None) -> Snapshot:
    return Snapshot.load(path, storage_options=storage_options(storage_option))
