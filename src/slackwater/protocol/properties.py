"""Table properties: the `configuration` of the metadata, typed.

Source: delta-protocol.md, the sections that name each `delta.…` key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slackwater.errors import CorruptTable

COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
ENABLE_CHANGE_DATA_FEED = "delta.enableChangeDataFeed"
ENABLE_DELETION_VECTORS = "delta.enableDeletionVectors"
ENABLE_IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
ENABLE_ROW_TRACKING = "delta.enableRowTracking"
ICT_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"
ICT_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
MATERIALIZED_ROW_COMMIT_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
MATERIALIZED_ROW_ID = "delta.rowTracking.materializedRowIdColumnName"


class TableProperties(Mapping[str, str]):
    """The properties of a table. Keys are found in any case, as the reference implementation does."""

    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._configuration = dict(configuration)
        self._folded = {key.lower(): key for key in self._configuration}

    def __getitem__(self, key: str) -> str:
        if key in self._configuration:
            return self._configuration[key]
        return self._configuration[self._folded[key.lower()]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._configuration)

    def __len__(self) -> int:
        return len(self._configuration)

    def __repr__(self) -> str:
        return f"TableProperties({self._configuration!r})"

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean property; raises CorruptTable for a value that is neither true nor false."""
        text = self.get(key)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise CorruptTable(f"table property {key} must be true or false, found {text!r}")
        return text.lower() == "true"

    def integer(self, key: str) -> int | None:
        """A whole-number property, None where it is not set; raises CorruptTable for a value that is no number."""
        text = self.get(key)
        try:
            return None if text is None else int(text)
        except ValueError as error:
            raise CorruptTable(f"table property {key} must be a whole number, found {text!r}") from error
