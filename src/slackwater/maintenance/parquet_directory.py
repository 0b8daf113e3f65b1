"""Parquet files of a directory without a table, and the partitions in its directory names.

Source: Hive's and Spark's layout of partitions (`day=2026-11-22/n=3/part-0.parquet`); delta-spark's CONVERT TO DELTA.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.errors import CorruptLog, InvalidArgument, UnsupportedFeature
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.actions.partition_values import (
    HIVE_DEFAULT_PARTITION,
    hive_unescape,
    parse_partition_value,
    serialize_partition_value,
)
from slackwater.protocol.schema.schema import StructField, StructType, is_string
from slackwater.storage.store import ObjectMeta, ObjectStore

_OTHERS = {
    LOG: "is a Delta table. Convert the files beside it",
    "_spark_metadata": "was written by a stream, whose log names the valid files. Read and rewrite it with Spark",
    ".hoodie": "is a Hudi table, which does not use all of its files. Read it with its own engine and write it again",
}
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_TABLES = re.compile(rf"part-(?:\d+-)?{_UUID}.*")
_OF_ONE_JOB = re.compile(_UUID)
_MARKERS = ("_SUCCESS", "_committed_", "_started_", "_metadata", "_common_metadata", "_spark_metadata")


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A file, and its partition values as texts of `add.partitionValues`."""

    meta: ObjectMeta
    values: tuple[str | None, ...] = ()


def parquet_files(store: ObjectStore, partitions: StructType, zone: str = "UTC") -> list[PartitionedFile]:
    """Return the visible files below the root of `store`. Their directories name the columns of `partitions`.

    Hidden files (names starting with `_` or `.`, except partitions) and empty files are skipped. `zone` is the time
    zone of times in directory names.

    Raises:
        InvalidArgument: If there are no files, directories name other columns, or a value does not have its column's
            type.
        UnsupportedFeature: If another log defines the valid files of a directory, or a directory is a link. Linked
            directories are not listed.
    """
    found = store.list_from("", recursive=True)
    _refuse_others(store, found)
    visible = [meta for meta in found if meta.size_bytes and is_visible(meta.path, partitions.names)]
    _refuse_links(store, partitions.names)
    if not visible:
        raise InvalidArgument(
            f"{store.root_url}: there is no Parquet file. Name the directory that contains the files (names that "
            "begin with _ or . are ignored)",
            error_class="DELTA_EMPTY_DIRECTORY",
        )
    values = _Values(store.root_url, partitions, zone)
    return [PartitionedFile(meta, values.of(meta.path)) for meta in visible]


def require_no_plain_files(store: ObjectStore) -> None:
    """Raise InvalidArgument if a new table would hide existing Parquet files without a table.

    Files left or being written by a table writer are ignored. Their names contain a UUID, and no marker of a completed
    plain Parquet job is present.
    """
    found = [meta.path for meta in store.list_from("", recursive=True)]
    files = [path for path in found if path.endswith(".parquet") and is_visible(path, ())]
    others = [path for path in files if _OF_TABLES.fullmatch(path.rpartition("/")[2]) is None]
    if others or (files and any(map(_says_plain, found))):
        raise InvalidArgument(
            f"{store.local_root or store.root_url} holds Parquet files that are not a Delta table, and a table beside "
            f"them would hide their rows ({(others or files)[0]}). Make them a table with DeltaTable.convertToDelta, "
            "replace them with mode overwrite, or write elsewhere",
            error_class="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        )


def _says_plain(path: str) -> bool:
    """Return whether a file marks a completed job of plain Parquet. Our own jobs use directories named by UUIDs."""
    *directories, name = path.split("/")
    if directories and _OF_ONE_JOB.fullmatch(directories[-1]):
        return False
    return name.startswith(_MARKERS) or "_spark_metadata" in directories


def is_visible(path: str, partition_columns: Iterable[str]) -> bool:
    """Return whether a file is visible: no path part starts with `_` or `.`, except partition directories."""
    shown = tuple(f"{name}=" for name in partition_columns)
    *directories, name = path.split("/")
    return _is_shown(name) and all(_is_shown(part) or part.startswith(shown) for part in directories)


def _is_shown(part: str) -> bool:
    return not part.startswith((".", "_")) or (part.startswith("_") and "=" in part)


def _refuse_others(store: ObjectStore, found: Iterable[ObjectMeta]) -> None:
    for meta in found:
        parts = meta.path.split("/")[:-1]
        marker = next((part for part in parts if part in _OTHERS), None)
        if marker is not None and not (marker == LOG and parts[0] == LOG):
            place = "/".join(parts[: parts.index(marker)]) or "it"
            raise UnsupportedFeature(
                f"{store.root_url} cannot be converted: {place} {_OTHERS[marker]}",
                error_class="DELTA_CONVERT_NON_PARQUET_TABLE",
            )


def _refuse_links(store: ObjectStore, partition_columns: Sequence[str]) -> None:
    """Raise UnsupportedFeature for linked directories. They are not listed here, but other engines read their rows."""
    if store.local_root is None:
        return
    for directory, names, _ in os.walk(store.local_root):
        for name in names:
            path = Path(directory, name)
            if path.is_symlink() and is_visible(f"{path.relative_to(store.local_root)}/x", partition_columns):
                raise UnsupportedFeature(
                    f"{store.root_url}: {path} is a link to a directory, which conversion does not follow. Put the "
                    "files there themselves, or remove the link"
                )


class _Values:
    """Partition values from directory names. Each directory name is parsed once."""

    def __init__(self, root: str, partitions: StructType, zone: str) -> None:
        self._root, self._columns, self._zone = root, partitions.fields, zone
        self._known: dict[str, tuple[str | None, ...]] = {}

    def of(self, path: str) -> tuple[str | None, ...]:
        directory = path.rpartition("/")[0]
        if directory not in self._known:
            self._known[directory] = self._parsed(directory)
        return self._known[directory]

    def _parsed(self, directory: str) -> tuple[str | None, ...]:
        parts = directory.split("/") if directory else []
        named = [part.partition("=") for part in parts if "=" in part]
        names = [hive_unescape(name) for name, _, _ in named]
        if names != [column.name for column in self._columns]:
            raise self._other_columns(directory, names)
        if len(named) < len(parts) and named:
            raise InvalidArgument(
                f"{self._root}: directory {directory!r} names partitions, but some directories in between name none",
                error_class="DELTA_INVALID_PARTITION_PATH",
            )
        return tuple(
            self._value(column, text, directory) for column, (_, _, text) in zip(self._columns, named, strict=True)
        )

    def _other_columns(self, directory: str, names: Sequence[str]) -> InvalidArgument:
        asked = [column.name for column in self._columns]
        where = f"directory {directory!r} names" if names else f"directory {directory or '.'!r} names no"
        told = f"{where} partition columns {names}" if names else f"{where} partition column"
        hint = ", ".join(f"{name} STRING" for name in names)
        todo = (
            f"Name the columns and their types in this order, as by the partition schema '{hint}'"
            if names
            else "Omit the partition schema, or move the files into directories of partitions"
        )
        return InvalidArgument(
            f"{self._root}: {told}, but the partition schema has {asked}. {todo}",
            error_class="DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        )

    def _value(self, column: StructField, escaped: str, directory: str) -> str | None:
        text = hive_unescape(escaped)
        if not text:
            raise InvalidArgument(
                f"{self._root}: directory {directory!r} names no value of {column.name}",
                error_class="DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
            )
        if text == HIVE_DEFAULT_PARTITION:
            if not column.nullable:
                raise InvalidArgument(
                    f"{self._root}: directory {directory!r} has the value NULL, but {column.name} is NOT NULL",
                    error_class="DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
                )
            return None
        if is_string(column.type):
            return text
        try:
            value = parse_partition_value(text, column.type, self._zone)
        except CorruptLog as error:
            raise InvalidArgument(
                f"{self._root}: directory {directory!r} names {text!r}, which is not a value of {column.name} of type "
                f"{column.type}. Use another type in the partition schema",
                error_class="DELTA_FAILED_CAST_PARTITION_VALUE",
            ) from error
        return serialize_partition_value(value, column.type)
