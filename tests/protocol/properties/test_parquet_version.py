"""The version of data pages that table properties ask for."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.parquet_version import page_version, page_version_of_table
from slackwater.protocol.properties.properties import TableProperties, validate_properties

KEY = "delta.parquet.format.version"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0.0", "v1"), ("1.1.1", "v1"), ("2.12.0", "v2"), ("2.12.1", "v2"), ("2.13.0", "v2"), ("99.99.99", "v2"),
        ("2.0.0", "v1"), ("2.9.9", "v1"),
    ],
)  # fmt: skip
def test_version_of_the_format_chooses_the_pages(text: str, expected: str) -> None:
    """Source: `ParquetFormatVersion` of delta-spark 4.4, whose pages have version 2 from 2.12.0 on."""
    assert validate_properties({KEY: text}) == {KEY: text}
    assert page_version_of_table(TableProperties({KEY: text})) == expected


@pytest.mark.parametrize("text", ["", "2", "2.12", "v2", "2.12.0.1", "0.9.9", "two", "2.12.x", "-1.0.0"])
def test_other_versions_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"must be a version of Parquet such as 1\.0\.0 or 2\.12\.0"):
        validate_properties({KEY: text})
    with pytest.raises(InvalidArgument, match=KEY):
        page_version_of_table(TableProperties({KEY: text}))


def test_table_without_the_property_asks_for_nothing() -> None:
    assert page_version_of_table(TableProperties({})) is None


def test_property_of_the_writer_comes_first() -> None:
    """Source: delta-spark's `TableParquetVersionOption`."""
    properties = TableProperties({KEY: "2.12.0", "parquet.writer.version": "v1"})
    assert page_version_of_table(properties) == "v1"


@pytest.mark.parametrize(
    ("text", "expected"), [("v1", "v1"), ("V2", "v2"), ("PARQUET_1_0", "v1"), ("parquet_2_0", "v2")]
)
def test_option_has_the_names_of_the_writer(text: str, expected: str) -> None:
    assert page_version("parquet.writer.version", text) == expected


def test_other_names_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"parquet\.writer\.version must be v1 or v2, found 'v3'"):
        page_version("parquet.writer.version", "v3")
