"""SQL that is not Delta's: statements that must mean the same in a session that is enabled and in one that is not.

`statements/*.sql` holds statements that stand alone, a blank line between two; `sequences/*.sql` holds those that need
the ones before them, a line of `====` between two sequences. `grammar` makes statements by its rules, and the function
reference of the Spark that runs gives its examples.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.sql.grammar import generated

_ROOM = Path(__file__).parent
_EXAMPLE = re.compile(r"^\s*> (.*?)\s*$(?=\n {0,8}\S|\s*\Z)", re.MULTILINE | re.DOTALL)
# What these give differs from one call to the next.
_CHANGING = (
    "aes_encrypt current_date current_time current_timestamp curdate java_method localtime localtimestamp now rand "
    "randn random randstr reflect shuffle try_reflect uniform unix_timestamp uuid input_file_name"
).split()
_CHANGES = re.compile(rf"\b({'|'.join(_CHANGING)})\b", re.IGNORECASE)

setup = (_ROOM / "statements" / "setup.sql").read_text(encoding="utf-8").strip().split("\n\n")


def standing_alone() -> list[str]:
    """Statements of which each is a sequence of its own, those written by hand before those made by rules."""
    found = []
    for path in sorted((_ROOM / "statements").glob("*.sql")):
        if path.name != "setup.sql":
            found += path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    return [*found, *generated()]


def sequences() -> list[list[str]]:
    """Statements that need each other, in their order."""
    found = []
    for path in sorted((_ROOM / "sequences").glob("*.sql")):
        blocks = path.read_text(encoding="utf-8").split("====\n")
        found += [block.strip("\n").split("\n\n") for block in blocks]
    return found


def functions(spark: SparkSession) -> list[str]:
    """The names of Spark's own functions, but those whose examples differ from one call to the next."""
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    return sorted(name for name in names if name not in _CHANGING)


def examples(spark: SparkSession, names: Sequence[str]) -> list[str]:
    """For each function the statement that describes it, and the examples that are in its description."""
    found = []
    for name in names:
        quoted = name if re.fullmatch(r"\W+|\w+", name) else f"`{name}`"
        found.append(f"DESCRIBE FUNCTION EXTENDED {quoted}")
        text = "\n".join(row[0] for row in spark.sql(found[-1]).collect())
        found += [example.rstrip(";") for example in _examples_in(text) if not _CHANGES.search(example)]
    return found


def _examples_in(text: str) -> list[str]:
    """Each begins with `> ` and goes on to the line that ends with a semicolon, or is its only line."""
    found: list[list[str]] = []
    is_open = False
    for line in text.partition("Examples:")[2].splitlines():
        stripped = line.strip()
        if stripped.startswith("> "):
            found.append([stripped[2:]])
            is_open = not stripped.endswith(";")
        elif is_open and stripped:
            found[-1].append(stripped)
            is_open = not stripped.endswith(";")
    return ["\n".join(lines) if lines[-1].endswith(";") else lines[0] for lines in found]
