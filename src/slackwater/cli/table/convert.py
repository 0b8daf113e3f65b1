"""Commands between Delta and plain Parquet: `slackwater convert | generate`."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import print_done, print_note
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.errors import InvalidArgument
from slackwater.html.number_format import counted, format_bytes
from slackwater.log.table import Table
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.snapshot import Snapshot


def convert_command(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Directory or URL of the Parquet files.", show_default=False)
    ],
    partition_schema: Annotated[
        str | None,
        typer.Option(
            "--partition-schema",
            metavar="COLUMNS",
            help="Names and types of the partition columns in directory names, for example 'day DATE, n INT'.",
        ),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats/--no-stats", help="Store the statistics of the files.")] = True,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Convert a directory of Parquet files to a table, in place.

    No other process may write to the directory during the conversion. Times in directory names are in UTC.

    Examples:
        slackwater convert /data/parquet --partition-schema "day DATE"
    """
    # Imported here, because other commands do not need the writers of tables.
    from slackwater.maintenance.convert import ConvertRequest, convert
    from slackwater.protocol.schema.ddl_columns import parse_column_list

    form = form_of(as_json, as_csv)
    try:
        partitions = StructType() if partition_schema is None else parse_column_list(partition_schema)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error), param_hint="--partition-schema") from error
    table = Table.at(path, storage_options(storage_option))
    with working("reading footers"):
        result = convert(table, ConvertRequest(partitions, collect_stats=stats))
    files, size = (0, 0) if result is None else (result.num_files, result.size_bytes)
    said = f"now: {counted(files, 'file')}, {format_bytes(size)}" if result is not None else "already: nothing was done"
    done = {"converted": result is not None, "numFiles": files, "sizeInBytes": size}
    print_done(form, done, lambda: print_note(f"{path} is a Delta table {said}"))


def generate_command(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Directory or URL of the table.", show_default=False)],
    mode: Annotated[str, typer.Argument(metavar="MODE", help="Kind of the manifest.")] = "symlink_format_manifest",
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Write manifests of the newest version's files, for engines without Delta support.

    Examples:
        slackwater generate /data/flights
    """
    from slackwater.maintenance.manifests import generate

    form = form_of(as_json, as_csv)
    snapshot = Snapshot.load(path, storage_options=storage_options(storage_option))
    with working("writing manifests"):
        written = generate(snapshot, mode)
    print_done(
        form,
        {"version": snapshot.version, "manifests": written},
        lambda: print_note(f"{counted(len(written), 'manifest')} of version {snapshot.version} written"),
        [{"manifest": each} for each in written],
        ("manifest",),
    )
