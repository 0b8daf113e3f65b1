"""The golden tables: where they are, what their index says of each, and what this suite expects beyond it.

The folder is `$SLACKWATER_GOLDEN`, or `../shared/golden` beside the repository. Its README.md explains the fields of a
record. `expectations.json` holds what the index leaves open, each entry with its reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

_REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("SLACKWATER_GOLDEN") or _REPOSITORY.parent / "shared" / "golden").resolve()
IS_PRESENT = (FOLDER / "index.json").is_file()
WHY_ABSENT = f"no golden tables at {FOLDER}: set SLACKWATER_GOLDEN to the folder that holds their index.json"
EXPECTATIONS: Mapping[str, Any] = json.loads((Path(__file__).parent / "expectations.json").read_text("utf-8"))

# To hash so many rows takes long.
_VERY_MANY_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class GoldenTable:
    """One table and its record in the index."""

    id: str
    record: Mapping[str, Any] = field(repr=False)

    @property
    def folder(self) -> Path:
        """What was kept of the table: the table itself, and expected content beside it."""
        return FOLDER / "tables" / str(self.record["dir"])

    @property
    def root(self) -> Path:
        """The table's root: the folder with `_delta_log`."""
        return self.folder / str(self.record["table_path"])

    @property
    def validity(self) -> str:
        """The index's word: valid, invalid, ambiguous, log-only, incomplete, needs-catalog or needs-fixup."""
        return str(self.record["validity"])

    @property
    def truth(self) -> Mapping[str, Any]:
        """Rows and hash of the latest version; empty where they are not known."""
        truth: Mapping[str, Any] = self.record.get("truth") or {}
        return truth

    def require_content(self, content: Mapping[str, Any]) -> None:
        """Fail unless rows and hash of `content` are those of the index, as far as it knows them."""
        known = {key: value for key in ("rows", "hash") if (value := self.truth.get(key)) is not None}
        assert {key: content[key] for key in known} == known

    @property
    def foreign_features(self) -> tuple[str, ...]:
        """The reader features of the table that the protocol's documents do not know."""
        listed = (self.record.get("latest_protocol") or {}).get("readerFeatures") or ()
        return tuple(name for name in listed if name in EXPECTATIONS["features_outside_the_documents"])

    @property
    def column_kinds(self) -> list[tuple[str, str]]:
        """Name and type of each column; of nested types the kind alone (struct, array, map)."""
        return [(name, kind) for name, kind in self.record.get("columns") or ()]

    def writable_copy(self, parent: Path) -> Path:
        """A copy of the table under `parent`, with the fix-ups of its record done; returns its root.

        The fix-up `strip-prefix` is done in the golden folder already.
        """
        copy = parent / "table"
        shutil.copytree(self.root, copy, copy_function=shutil.copyfile)
        for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        for fixup in self.record.get("fixups", ()):
            if fixup["op"] == "replace-in-log":
                for commit in (copy / "_delta_log").glob("*.json"):
                    text = commit.read_text("utf-8")
                    commit.write_text(text.replace(fixup["from"], fixup["to"].replace("{ROOT}", str(copy))), "utf-8")
        return copy


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedContent:
    """What the project that made a table says a version of it holds."""

    table: GoldenTable
    record: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """Table and version."""
        return f"{self.table.id}@{self.record['version']}"

    @property
    def version(self) -> int | None:
        """The version, None for the latest."""
        name = str(self.record["version"])
        return None if name == "latest" else int(name.removeprefix("v"))

    def rows(self) -> pa.Table:
        """The content, as pyarrow reads it."""
        return pq.read_table(self.table.folder / self.record["path"], coerce_int96_timestamp_unit="us")


def require_golden_tables() -> None:
    """Skip visibly where they are absent, and fail where CI says that they must be there."""
    if IS_PRESENT:
        return
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(WHY_ABSENT)
    pytest.skip(WHY_ABSENT)


@cache
def tables() -> tuple[GoldenTable, ...]:
    """Every table of the index; none where the folder is absent."""
    if not IS_PRESENT:
        return ()
    records = json.loads((FOLDER / "index.json").read_text("utf-8"))["tables"]
    return tuple(GoldenTable(record["id"], record) for record in records)


@cache
def expected_contents() -> tuple[ExpectedContent, ...]:
    """Every content that upstream keeps beside a table that a reader can be asked for: `post_append` is a writer's."""
    return tuple(
        ExpectedContent(table, record)
        for table in tables()
        for record in table.record.get("expected", ())
        if record["version"] != "post_append" and is_readable(table)
    )


def is_readable(table: GoldenTable) -> bool:
    """Whether the documents say how to read the table, and all its files are there."""
    return table.validity == "valid" and not table.foreign_features and table.id not in EXPECTATIONS["refused"]


def each(items: Iterable[GoldenTable] | Iterable[ExpectedContent]) -> list[Any]:
    """One test per item under its id, a long one where others tell as much; one that says so where there are none."""
    cases = [pytest.param(item, id=item.id, marks=[pytest.mark.long] if _is_long(item) else []) for item in items]
    return cases or [pytest.param(None, id="golden-tables-absent")]


def _is_long(item: GoldenTable | ExpectedContent) -> bool:
    """Whether the rows of a table are very many."""
    table = item.table if isinstance(item, ExpectedContent) else item
    return bool(table.truth.get("rows", 0) >= _VERY_MANY_ROWS)


@cache
def table_hash() -> Callable[[pa.Table], dict[str, Any]]:
    """The content hash that the index was made with: independent of row order, `rowhash.py` of the golden folder."""
    spec = importlib.util.spec_from_file_location("golden_rowhash", FOLDER / "rowhash.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hash_of: Callable[[pa.Table], dict[str, Any]] = module.table_hash
    return hash_of
