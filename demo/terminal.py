"""How the demo shows things in the terminal."""

from __future__ import annotations

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

console = Console()


def show(frame: DataFrame, title: str) -> None:
    """A DataFrame as a table in the terminal."""
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(name)
    for row in frame.collect():
        table.add_row(*(str(value) for value in row))
    console.print(table)


def yes(is_so: bool) -> str:
    """What is said of a result that was looked at."""
    return "yes" if is_so else "NO"
