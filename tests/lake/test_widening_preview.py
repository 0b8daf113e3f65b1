"""Type changes of a multi-table transaction record the version of its commit, with `typeWidening-preview`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from slackwater import AddFile
from slackwater.lake.lake import LogLake
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.schema.schema import INTEGER, StructField, StructType, parse_type
from slackwater.protocol.schema_changes.alter_column import change_type
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import change_table

PREVIEW = "typeWidening-preview"


def _with_preview(snapshot: Snapshot) -> None:
    protocol = snapshot.protocol
    readers, writers = ((*(names or ()), PREVIEW) for names in (protocol.reader_features, protocol.writer_features))
    transaction = begin(snapshot)
    transaction.set_protocol(Protocol(3, 7, readers, writers))
    configuration = {**snapshot.metadata.configuration, "delta.enableTypeWidening": "true"}
    transaction.set_metadata(replace(snapshot.metadata, configuration=configuration))
    transaction.commit("ADD FEATURE")


def _widen(snapshot: Snapshot, new_type: str) -> None:
    changed = change_type(snapshot.configuration, ("id",), parse_type(new_type))
    change_table(snapshot, "CHANGE COLUMN", changed).commit(begin(snapshot))


def _append(lake: LogLake) -> None:
    with lake.transaction() as concurrent:
        log = concurrent.log("t")
        log.add(AddFile("b.parquet", {}, 10, 0, stats='{"numRecords":1}'))
        log.commit("WRITE")


def test_type_changes_of_a_transaction_have_the_version_of_its_commit(tmp_path: Path) -> None:
    with LogLake.open(tmp_path) as lake:
        for name in ("t", "other"):
            lake._create_log(name, StructType((StructField("id", INTEGER),)))
        _with_preview(lake.snapshot("t"))
        with lake.transaction() as tx:
            for new_type in ("long", "decimal(20,0)"):
                _widen(tx.writing("t").snapshot, new_type)
            log = tx.log("other")
            log.add(AddFile("a.parquet", {}, 10, 0, stats='{"numRecords":1}'))
            log.commit("WRITE")
            with ThreadPoolExecutor(1) as beside:
                beside.submit(_append, lake).result()
        after = lake.snapshot("t")
        (column,) = after.schema
        assert after.version == 3
        assert [(each["toType"], each["tableVersion"]) for each in column.metadata["delta.typeChanges"]] == [
            ("long", 3),
            ("decimal(20,0)", 3),
        ]
