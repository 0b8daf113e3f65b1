"""What must hold of a table's log whatever happened to those who wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from slackwater.protocol.actions.file_names import commit_name
from slackwater.scan.snapshot import Snapshot


def check_log(path: Path, expected: Sequence[str | None] | None = None) -> list[str | None]:
    """What each version after the first added, one file or none; nobody's owner is asked.

    Versions are there without a gap, their times rise, no transaction and no file is there twice, and the table is what
    its commits make it. With `expected`, that is what each version added.
    """
    log = path / "_delta_log"
    names = sorted(file.name for file in log.glob("*.json"))
    assert names == [commit_name(version) for version in range(len(names))]
    commits = [[orjson.loads(line) for line in (log / name).read_bytes().splitlines()] for name in names]
    infos = [actions[0]["commitInfo"] for actions in commits]
    stamps = [info.get("inCommitTimestamp", info["timestamp"]) for info in infos]
    # Those of the file system's own commits before a take-over are only what its writers said.
    own = [info["inCommitTimestamp"] for info in infos if "inCommitTimestamp" in info]
    assert own == sorted(set(own)), stamps
    assert len({info["txnId"] for info in infos}) == len(infos)
    added = [[action["add"]["path"] for action in actions if "add" in action] for actions in commits]
    files = [paths[0] if paths else None for paths in added[1:]]
    assert [len(paths) for paths in added[1:]] == [int(file is not None) for file in files]
    present = [file for file in files if file is not None]
    assert len(set(present)) == len(present)
    assert sorted(Snapshot.load(path, published_only=True).live_files(["path"])["path"].to_pylist()) == sorted(present)
    if expected is not None:
        assert files == list(expected)
    return files
