"""Command `slackwater diff`: differences between two versions of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import Form, print_csv, print_human, print_json, table
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    Outside,
    StorageOption,
    TablePath,
    form_of,
    storage_options,
)
from slackwater.cli.rows.cell_format import records_of, show_rows
from slackwater.html.number_format import counted
from slackwater.scan.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.scan.version_diff import RowDifference, ValueChange, VersionDiff

_CSV = ("what", "change", "name", "before", "after")


def diff_command(
    path: TablePath,
    before: Annotated[int, typer.Argument(metavar="V1", min=0, help="Earlier version.")],
    after: Annotated[int, typer.Argument(metavar="V2", min=0, help="Later version.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMNS", help="Compare rows by this unique key: columns, separated by commas."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", min=0, metavar="ROWS", help="Maximum number of example rows of each kind.")
    ] = 5,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
    allow_paths_outside_root: Outside = True,
) -> None:
    """Compare versions V1 and V2: schema, properties and files.

    With --key, the output includes added, removed and changed rows. The command reads only rows of files in exactly one
    of the two versions. CSV contains no example rows.

    Examples:
        slackwater diff /data/flights 1 2 --key month
    """
    # Imported here, because only this command compares versions.
    from slackwater.scan.version_diff import difference

    form = form_of(as_json, as_csv)
    options = storage_options(storage_option)
    outside = allow_paths_outside_root
    sides = [
        Snapshot.load(path, version, storage_options=options, allow_paths_outside_root=outside)
        for version in (before, after)
    ]
    keys = [part.strip() for text in key or () for part in text.split(",") if part.strip()]
    with working("comparing versions"):
        found = difference(sides[0], sides[1], keys)
    if form is Form.JSON:
        print_json(_document(found, before, after, examples))
    elif form is Form.CSV:
        print_csv(_records(found), _CSV)
    else:
        _show(found, before, after, examples)


def _document(found: VersionDiff, before: int, after: int, examples: int) -> dict[str, Any]:
    files = found.files
    rows = found.rows
    return {
        "before": before,
        "after": after,
        "schema": [_change(change) for change in found.schema],
        "properties": [_change(change) for change in found.properties],
        "files": {
            "added": files.added,
            "addedBytes": files.added_bytes,
            "removed": files.removed,
            "removedBytes": files.removed_bytes,
        },
        "rows": None if rows is None else _rows(rows, examples),
    }


def _change(change: ValueChange) -> dict[str, Any]:
    return {"name": change.name, "before": change.before, "after": change.after}


def _rows(rows: RowDifference, examples: int) -> dict[str, Any]:
    befores, afters = (records_of(side.slice(0, examples)) for side in (rows.changed_before, rows.changed_after))
    return {
        "added": rows.added.num_rows,
        "removed": rows.removed.num_rows,
        "changed": rows.changed_after.num_rows,
        "examples": {
            "added": records_of(rows.added.slice(0, examples)),
            "removed": records_of(rows.removed.slice(0, examples)),
            "changed": [{"before": b, "after": a} for b, a in zip(befores, afters, strict=True)],
        },
    }


def _records(found: VersionDiff) -> list[dict[str, Any]]:
    records = [
        {"what": what, "change": _kind(change), **_change(change)}
        for what, changes in (("schema", found.schema), ("property", found.properties))
        for change in changes
    ]
    counts = [("file", "added", found.files.added), ("file", "removed", found.files.removed)]
    if found.rows is not None:
        counts += [("row", kind, number) for kind, number in _counts(found.rows)]
    return [*records, *({"what": what, "change": kind, "after": number} for what, kind, number in counts)]


def _kind(change: ValueChange) -> str:
    return "added" if change.before is None else "removed" if change.after is None else "changed"


def _counts(rows: RowDifference) -> list[tuple[str, int]]:
    return [
        ("added", rows.added.num_rows),
        ("removed", rows.removed.num_rows),
        ("changed", rows.changed_after.num_rows),
    ]


def _show(found: VersionDiff, before: int, after: int, examples: int) -> None:
    print_human(Text(f"version {before} → {after}", style="bold"))
    for title, changes in (("schema", found.schema), ("properties", found.properties)):
        if changes:
            shown = [(_sign(change), change.name, change.before, change.after) for change in changes]
            print_human(Text(), table(("", title, "before", "after"), shown))
        else:
            print_human(Text(f"{title}: the same"))
    files = found.files
    print_human(
        Text(
            f"files: {counted(files.added, 'file')} added, {files.added_bytes:,} bytes; "
            f"{counted(files.removed, 'file')} removed, {files.removed_bytes:,} bytes"
        )
    )
    if found.rows is None:
        print_human(Text("rows: not compared; name their key with --key"))
        return
    print_human(Text("rows: " + ", ".join(f"{number} {kind}" for kind, number in _counts(found.rows))))
    _show_rows("+ added", found.rows.added, examples)
    _show_rows("- removed", found.rows.removed, examples)
    _show_rows("~ changed: before", found.rows.changed_before, examples)
    _show_rows("~ changed: after", found.rows.changed_after, examples)


def _sign(change: ValueChange) -> str:
    return {"added": "+", "removed": "-", "changed": "~"}[_kind(change)]


def _show_rows(title: str, rows: pa.Table, examples: int) -> None:
    if not rows.num_rows or not examples:
        return
    shown = min(rows.num_rows, examples)
    left = "" if shown == rows.num_rows else f", {shown} of {rows.num_rows}"
    print_human(Text(), Text(title + left))
    show_rows(rows.slice(0, shown), Form.HUMAN)
