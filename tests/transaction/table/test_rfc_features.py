"""Rules of writer features from the RFCs, for protocol and metadata."""

from __future__ import annotations

import pytest

from slackwater.errors import ProtocolChangedException
from slackwater.transaction.table.alteration import add_feature, set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import add, append, begin, table

BY_NAME = {"delta.columnMapping.mode": "name"}
INNER = {"name": "x", "type": "long", "nullable": True, "metadata": {}}
COLUMNS = {"id": "long", "s": {"type": "struct", "fields": [INNER]}}


# Partition columns in the files.

MATERIALIZED = "delta.enableMaterializePartitionColumnsFeature"


def test_the_property_adds_the_feature_and_goes_with_it() -> None:
    before = table({"id": "long", "p": "long"}, ["p"])
    enabled = set_properties(before, {MATERIALIZED: "true"}).commit(begin(before)).snapshot
    assert "materializePartitionColumns" in (enabled.protocol.writer_features or ())
    assert enabled.protocol.reader_features is None
    dropped = drop_feature(append(enabled, add("a", partition={"p": "1"})).snapshot, "materializePartitionColumns")
    assert MATERIALIZED not in dropped.snapshot.metadata.configuration
    assert dropped.snapshot.protocol.writer_features is None


def test_files_written_before_the_feature_conflict_with_it() -> None:
    before = table({"id": "long", "p": "long"}, ["p"])
    add_feature(before, "materializePartitionColumns").commit(begin(before))
    with pytest.raises(ProtocolChangedException, match="may lack the partition columns"):
        append(before, add("a", partition={"p": "1"}))
    # Commits without new files follow it.
    progress = begin(before)
    progress.set_transaction("app", 1)
    assert progress.commit("WRITE").version == 2
