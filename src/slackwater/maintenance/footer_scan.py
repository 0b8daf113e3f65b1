"""Columns and statistics from Parquet footers, read with threads.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from slackwater.data_files.footer_schema import schema_of_footer
from slackwater.errors import InvalidArgument, ObjectNotFound, UnsupportedFeature
from slackwater.protocol.schema.schema import schema_to_json
from slackwater.stats.footers import StatsLeaves, parquet_footer, stats_of_footer
from slackwater.storage.store import ObjectStore

_THREADS = 16
_BATCH = 256


@dataclass(frozen=True, slots=True)
class FooterSummary:
    """A file: path below the root, size in bytes, columns as a `schemaString`, `stats` as JSON.

    `is_shredded`: it has shredded variants.
    """

    path: str
    size_bytes: int
    schema: str
    stats: str | None = None
    is_shredded: bool = False


def described(store: ObjectStore, path: str, leaves: StatsLeaves | None) -> FooterSummary:
    """Return the summary of the file at `path`, with statistics of `leaves`; None for no statistics.

    Raises:
        InvalidArgument: If the file is not Parquet or does not exist.
        UnsupportedFeature: If a table cannot have the columns of the file.
        StorageError: If the store fails.
    """
    try:
        footer, size = parquet_footer(store, path)
        schema = schema_to_json(schema_of_footer(footer))
    except ObjectNotFound as error:
        raise InvalidArgument(
            f"{store.root_url}: {path} disappeared during the conversion. Convert while no other process writes there",
            error_class="DELTA_FILE_NOT_FOUND",
        ) from error
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"{store.root_url}: {path} cannot be part of a table: {error}") from error
    stats = None if leaves is None else stats_of_footer(footer, leaves)
    return FooterSummary(path, size, schema, stats, any(variant.is_shredded for variant in footer.variants))


def describe_files(store: ObjectStore, paths: Sequence[str], leaves: StatsLeaves | None) -> Iterator[FooterSummary]:
    """Yield the summaries of `paths` in order. Later files are read ahead. Raises the errors of `described`."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for start in range(0, len(paths), _BATCH):
            yield from pool.map(lambda path: described(store, path, leaves), paths[start : start + _BATCH])


def first_of_each_schema(files: Iterable[FooterSummary]) -> dict[str, str]:
    """Return the distinct schemas in order, each with the path of the first file."""
    found: dict[str, str] = {}
    for file in files:
        found.setdefault(file.schema, file.path)
    return found
