"""Command `slackwater layout`: file layout of a table, and the effect of OPTIMIZE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from slackwater.cli.common.render import Form, print_done, print_human, table
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    form_of,
    loaded,
)
from slackwater.cli.visualize.output_file import OutFile, kind_of_file, write
from slackwater.html.number_format import counted, number, short_bytes, visible

if TYPE_CHECKING:
    from slackwater.visualization.layout import Layout

_OF_A_COLUMN = ("column", "meanDepth", "maxDepth", "lookUpFiles", "filesWithoutStatistics", "filesOfNulls")
_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def layout_command(
    path: TablePath,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMNS",
            help="Report these columns, separated by commas; a.b is a field of a struct.",
            show_default="columns with statistics",
        ),
    ] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    out: OutFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the file layout of a table: sizes, deleted rows, depth of overlap, and the effect of OPTIMIZE.

    The depth of a column is the number of files that may contain a value of it, by their statistics. No data file is
    opened. --out writes a page (.html) instead; --csv has a row for each column.

    Examples:
        slackwater layout /data/flights
    """
    # Imported here, because only this command reads the layout.
    from slackwater.visualization.layout import layout_of
    from slackwater.visualization.layout_page import layout_page

    form = form_of(as_json, as_csv)
    if out is not None:
        kind_of_file(out, ("html",))
    names = None if by is None else [name.strip() for name in by.split(",")]
    found = layout_of(loaded(path, version, timestamp, storage_option), names)
    if out is not None:
        write(out, layout_page(found))
    if out is None or form is not Form.HUMAN:
        record = found.record()
        print_done(form, record, lambda: print_human(*_parts(found)), record["columns"], _OF_A_COLUMN)


def _parts(layout: Layout) -> list[RenderableType]:
    from slackwater.visualization.layout import SMALL_BYTES
    from slackwater.visualization.layout_text import deleted_words, depth_words, optimize_words

    rows = "rows unknown" if layout.rows is None else counted(layout.rows, "row")
    head = [
        f"{visible(layout.place)}, version {layout.version}",
        f"{counted(layout.files, 'file')}, {short_bytes(layout.bytes)}, {rows}"
        + (f"; half of the files are below {short_bytes(layout.median_bytes)}" if layout.files else ""),
    ]
    if layout.small_files:
        head.append(f"{counted(layout.small_files, 'file')} below {SMALL_BYTES >> 20} MiB")
    if layout.deleted_rows:
        vectors = counted(layout.files_with_vectors, "file")
        head.append(f"rows deleted by deletion vectors: {deleted_words(layout)}, in {vectors}")
    head.append(optimize_words(layout))
    parts: list[RenderableType] = [Text(text) for text in head]
    if layout.sizes:
        most = max(each.files for each in layout.sizes)
        bars = [(each.label, number(each.files), _bar(each.files / most)) for each in layout.sizes]
        parts += [Text(), table(("size", "files", ""), bars, right=("size", "files"))]
    if layout.columns:
        depths = [
            (
                each.column,
                f"{each.mean_depth:.1f}",
                number(each.max_depth),
                f"{each.look_up_files:.1f} of {number(each.files)}",
                depth_words(each),
            )
            for each in layout.columns
        ]
        headers = ("column", "depth", "most", "files of a look-up", "")
        parts += [Text(), table(headers, depths, right=("depth", "most", "files of a look-up"))]
    if layout.has_more_columns:
        parts.append(Text("other columns with statistics: --by names them"))
    return parts


def _bar(part: float) -> str:
    eighths = round(part * _BAR * 8)
    if part > 0:
        eighths = max(eighths, 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
