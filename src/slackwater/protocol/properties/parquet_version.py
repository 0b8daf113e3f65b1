"""The version of data pages in new Parquet files, as table properties and writer options request it.

Names of data page versions are those of Parquet's Java writer: `v1` and `v2`. Source: delta-protocol.md "Table
Properties"; delta-spark's `delta.parquet.format.version`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.registry import PARQUET_FORMAT_VERSION

WRITER_VERSION = "parquet.writer.version"
"""The option of Parquet's Java writer. As a table property, it has precedence over PARQUET_FORMAT_VERSION."""

_VERSION = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)", re.ASCII)
_FIRST = (1, 0, 0)
_FIRST_WITH_V2 = (2, 12, 0)
_NAMES = {"v1": "v1", "v2": "v2", "parquet_1_0": "v1", "parquet_2_0": "v2"}


def page_version(key: str, text: str) -> str:
    """Return the page version with the writer's name `text`. Raises InvalidArgument with the name of `key`."""
    found = _NAMES.get(text.strip().lower())
    if found is None:
        raise InvalidArgument(f"{key} must be v1 or v2, found {text!r}")
    return found


def page_version_of_format(text: str) -> str:
    """Return the page version of the Parquet format version `text`: `v2` from 2.12.0 on.

    Raises InvalidArgument for a text that is not a version from 1.0.0 on.
    """
    match = _VERSION.fullmatch(text)
    version = tuple(map(int, match.groups())) if match else ()
    if version < _FIRST:
        raise InvalidArgument(
            f"table property {PARQUET_FORMAT_VERSION} must be a version of Parquet such as 1.0.0 or 2.12.0, found "
            f"{text!r}"
        )
    return "v2" if version >= _FIRST_WITH_V2 else "v1"


def page_version_of_table(properties: Mapping[str, str]) -> str | None:
    """Return the page version that the table requests, None without a request. Raises InvalidArgument."""
    writer, version = properties.get(WRITER_VERSION), properties.get(PARQUET_FORMAT_VERSION)
    if writer is not None:
        return page_version(WRITER_VERSION, writer)
    return None if version is None else page_version_of_format(version)
