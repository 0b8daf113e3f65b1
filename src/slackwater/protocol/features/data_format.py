"""The encoding of a table's data files, which is Parquet or none that this package reads or writes.

Source: delta-protocol.md "Change Metadata", "Format Specification".
"""

from __future__ import annotations

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata

PARQUET = "parquet"


def validate_parquet(metadata: Metadata, where: str) -> None:
    """Let pass a table whose data files are Parquet; raise UnsupportedFeature before rows are read or written.

    `where` is the table, for the message. What the log says of such a table can be told all the same.
    """
    provider = metadata.format.provider
    if provider.lower() != PARQUET:
        raise UnsupportedFeature(
            f"{where}: the data files of the table are {provider!r} by its metaData.format.provider; this version of "
            f"Slackwater reads and writes rows of {PARQUET} only: use the engine that made the table"
        )
