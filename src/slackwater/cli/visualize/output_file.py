"""Output files of visualizations, with the format in the file extension."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.common.render import print_note
from slackwater.errors import InvalidArgument
from slackwater.html.number_format import short_bytes

OutFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Output file. The file extension selects the format.", dir_okay=False),
]


def kind_of_file(out: Path, known: tuple[str, ...]) -> str:
    """Return the file extension, one of `known`. Raises typer.BadParameter."""
    kind = out.suffix.lower().removeprefix(".")
    if kind not in known:
        names = ", ".join(f".{name}" for name in known)
        raise typer.BadParameter(
            f"the name of a picture's file must end with one of {names}, found {out.name!r}", param_hint="--out"
        )
    return kind


def write(out: Path, content: str | bytes) -> None:
    """Write the file, and report its size on stderr. Raises InvalidArgument if the write fails."""
    data = content.encode() if isinstance(content, str) else content
    try:
        out.write_bytes(data)
    except OSError as error:
        raise InvalidArgument(f"{out} cannot be written: {error.strerror}") from error
    print_note(f"{out}: {short_bytes(len(data))}")
