"""Commands that print rows of one table: `slackwater head | count`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import Form, print_csv, print_human, print_json
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    Outside,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    form_of,
    loaded,
)
from slackwater.cli.rows.cell_format import show_rows

_Where = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help='Condition on the rows, for example "month = 3".')
]
_Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="COLUMNS", help="Columns, separated by commas. Repeatable.", show_default="all"),
]


def head_command(
    path: TablePath,
    number: Annotated[int, typer.Option("-n", "--number", min=0, metavar="ROWS", help="Maximum number of rows.")] = 10,
    where: _Where = None,
    columns: _Columns = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
    allow_paths_outside_root: Outside = True,
) -> None:
    """Print the first rows of the table, in the order of its files.

    Instants are in UTC. Files are read until there are enough rows.

    Examples:
        slackwater head /data/flights -n 5 --columns month,carrier --where "month = 12"
    """
    form = form_of(as_json, as_csv)
    with working("reading rows"):
        snapshot = loaded(path, version, timestamp, storage_option, allow_paths_outside_root)
        found = snapshot.to_arrow(_names(columns, snapshot.schema.names), where, limit=number, variant_format="json")
    show_rows(found, form)


def count_command(
    path: TablePath,
    where: _Where = None,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
    allow_paths_outside_root: Outside = True,
) -> None:
    """Count the rows of the table, with --where the matching rows.

    Without --where the count comes from the log's statistics, and no file is read if all files have statistics.

    Examples:
        slackwater count /data/flights
        slackwater count /data/flights --where "month = 12"
    """
    # Imported here, because only this command counts rows.
    from slackwater.scan.row_count import count_rows

    form = form_of(as_json, as_csv)
    with working("counting rows"):
        found = count_rows(loaded(path, version, timestamp, storage_option, allow_paths_outside_root), where)
    record = {"rows": found.rows, "by": "statistics" if found.by_statistics else "rows"}
    if form is Form.JSON:
        print_json(record)
    elif form is Form.CSV:
        print_csv([record], list(record))
    else:
        told = "by statistics, no file was read" if found.by_statistics else "the files were read"
        print_human(Text(f"{found.rows}  ({told})"))


def _names(given: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Split `--columns` at commas. A name with a comma stays whole if the table has such a column."""
    if given is None:
        return None
    return [name for text in given for name in ([text] if text in known else _parts(text))]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
