"""The encoding of a table's data files. This package reads and writes only Parquet.

Source: delta-protocol.md "Change Metadata", "Format Specification".
"""

from __future__ import annotations

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata

PARQUET = "parquet"


def validate_parquet(metadata: Metadata, where: str) -> None:
    """Validate that the table's data files are Parquet. Raises UnsupportedFeature before rows are read or written.

    `where` is the table, for the message. The log of such a table remains readable.
    """
    provider = metadata.format.provider
    if provider.lower() != PARQUET:
        raise UnsupportedFeature(
            f"{where}: the data files have the format {provider!r} (metaData.format.provider). This version of "
            f"Slackwater reads and writes rows of {PARQUET} only. Use the engine that created the table"
        )
