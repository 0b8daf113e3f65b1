"""Command that creates a lake: `slackwater lake create`."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.common.render import print_done, print_note
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.cli.lake.lake_argument import DatabaseUrl, LakeRoot
from slackwater.errors import TableAlreadyExists


def create_command(
    path: LakeRoot,
    database: DatabaseUrl = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", metavar="GROUP", help="Unix group with access to the lake's state.", show_default="only you"
        ),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed without a change if the lake exists.")
    ] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Create a lake: the state of its commit owner, in a file below a local lake, or in a database.

    Other commands never create a lake, so a mistyped path is an error.

    Examples:
        slackwater lake create /data/lake
    """
    from slackwater.lake.recovery.recovery import require_no_orphaned_tables
    from slackwater.owner.embedded import EmbeddedOwner

    form = form_of(as_json, as_csv)
    options = storage_options(storage_option)
    made: list[str] = []

    def note() -> None:
        require_no_orphaned_tables(path, options)
        made.append(path)

    owner = EmbeddedOwner.open(path, database, options, group=group, when_new=note)
    root_url, owner_id = owner.root_url, owner.owner_id
    owner.close()
    if not (made or if_not_exists):
        raise TableAlreadyExists(f"{root_url} is already a lake of the commit owner {owner_id}. Nothing was changed")
    done = "is a lake now" if made else "is a lake already"
    print_done(
        form,
        {"location": root_url, "ownerId": owner_id, "created": bool(made)},
        lambda: print_note(f"{root_url} {done}, of the commit owner {owner_id}"),
    )
