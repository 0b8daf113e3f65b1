"""What must hold of a log whoever wrote its commits; read from the JSON itself, by none of the engines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

Commits = Sequence[Sequence[Mapping[str, Any]]]
"""The actions of every commit, oldest first."""


def commits_of(path: str) -> Commits:
    """The commits of the table at `path`, from version 0."""
    files = sorted((Path(path) / "_delta_log").glob("[0-9]" * 20 + ".json"))
    assert [int(file.stem) for file in files] == list(range(len(files)))
    return [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files]


def actions(commits: Commits, kind: str) -> list[dict[str, Any]]:
    """Every action of a kind, oldest first."""
    return [action[kind] for commit in commits for action in commit if action.get(kind) is not None]


def table_features(commits: Commits) -> frozenset[str]:
    """The table features that the newest protocol lists."""
    protocol = actions(commits, "protocol")[-1]
    return frozenset((protocol.get("readerFeatures") or []) + (protocol.get("writerFeatures") or []))


def fields(commits: Commits) -> list[dict[str, Any]]:
    """The columns of the newest schema."""
    found: list[dict[str, Any]] = json.loads(actions(commits, "metaData")[-1]["schemaString"])["fields"]
    return found


def row_ids_do_not_meet(commits: Commits) -> None:
    """Every file has row ids of its own, all at most the high-water mark that its commit states."""
    taken: list[tuple[int, int]] = []
    mark = -1
    for version, commit in enumerate(commits):
        adds = [action["add"] for action in commit if action.get("add")]
        domains = [action["domainMetadata"] for action in commit if action.get("domainMetadata")]
        for domain in domains:
            if domain["domain"] == "delta.rowTracking":
                stated = json.loads(domain["configuration"])["rowIdHighWaterMark"]
                assert stated >= mark
                mark = stated
        for add in adds:
            first, rows = add["baseRowId"], json.loads(add["stats"])["numRecords"]
            assert add["defaultRowCommitVersion"] == version
            assert first + rows - 1 <= mark
            taken.append((first, first + rows))
    taken.sort()
    assert all(end <= start for (_, end), (start, _) in pairwise(taken)), taken


def in_commit_timestamps_rise(commits: Commits) -> None:
    """Every commit starts with its commitInfo, and its timestamp is above the one before."""
    stamps = [commit[0]["commitInfo"]["inCommitTimestamp"] for commit in commits]
    assert all(isinstance(stamp, int) for stamp in stamps)
    assert all(before < after for before, after in pairwise(stamps)), stamps


def identity_marks_move_on(commits: Commits) -> None:
    """Every identity column's high-water mark is a value of its progression, and covers the values in the files."""
    for field in fields(commits):
        metadata = field["metadata"]
        if "delta.identity.start" not in metadata:
            continue
        start, step = metadata["delta.identity.start"], metadata["delta.identity.step"]
        mark = metadata["delta.identity.highWaterMark"]
        assert (mark - start) % step == 0
        side = "maxValues" if step > 0 else "minValues"
        name = metadata.get("delta.columnMapping.physicalName", field["name"])
        furthest = [json.loads(add["stats"])[side][name] for add in actions(commits, "add")]
        assert all((mark - value) * step >= 0 for value in furthest), (mark, furthest)


def columns_have_ids(commits: Commits) -> None:
    """Every column has an id and a physical name of its own, ids at most the table's maximum."""
    found = [field["metadata"] for field in fields(commits)]
    ids = [metadata["delta.columnMapping.id"] for metadata in found]
    names = [metadata["delta.columnMapping.physicalName"] for metadata in found]
    assert len(set(ids)) == len(ids)
    assert len(set(names)) == len(names)
    maximum = actions(commits, "metaData")[-1]["configuration"]["delta.columnMapping.maxColumnId"]
    assert max(ids) <= int(maximum)


def clustering_stays(commits: Commits) -> None:
    """The clustering columns stand in their domain, and every file says which of its columns have statistics."""
    domains = [domain for domain in actions(commits, "domainMetadata") if domain["domain"] == "delta.clustering"]
    assert domains
    columns = [".".join(path) for path in json.loads(domains[-1]["configuration"])["clusteringColumns"]]
    assert columns
    for add in actions(commits, "add"):
        assert set(columns) <= set(json.loads(add["stats"])["minValues"])
