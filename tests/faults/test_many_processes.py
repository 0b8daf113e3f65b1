"""Many processes that append to one table: each commit lands, none is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.log.checksum_totals import checksum_of
from slackwater.log.files.version_checksum import read_version_checksum
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import commit_actions, only, table

PROCESSES = 8
_WRITER = """
import sys
import slackwater
table, name, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
slackwater.Snapshot.load(table)
print("ready", flush=True)
sys.stdin.readline()
for count in range(number):
    transaction = slackwater.Transaction(table)
    transaction.add(slackwater.AddFile(f"{name}-{count}", {}, 100, 0, stats='{"numRecords":10}'))
    transaction.set_transaction(name, count)
    result = transaction.commit("WRITE")
    assert not result.upkeep_errors, result.upkeep_errors
    print(result.version, result.attempts, flush=True)
"""


def test_every_append_of_many_processes_lands_once_and_in_order(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    number = 50 if request.config.getoption("--long") else 10
    before = table(
        properties={"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}, path=tmp_path
    )
    versions = _race(tmp_path, number)

    total = PROCESSES * number
    assert sorted(versions) == list(range(1, total + 1))
    after = Snapshot.load(tmp_path)
    assert after.version == total
    paths = after.live_files(["path"])["path"].to_pylist()
    assert sorted(paths) == sorted(f"w{writer}-{count}" for writer in range(PROCESSES) for count in range(number))
    assert {app: found.version for app, found in after.transactions.items()} == {
        f"w{writer}": number - 1 for writer in range(PROCESSES)
    }
    for version, path in versions.items():
        assert only(after.store, version, "add")["path"] == path
    checksum = read_version_checksum(after.store, total)
    assert checksum is not None
    assert (checksum.num_files, checksum.table_size_bytes) == (total, checksum_of(after).table_size_bytes)
    _check_order(before, total)


def _race(path: Path, number: int) -> dict[int, str]:
    """The file that each version added, as the writers were told."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), f"w{writer}", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in range(PROCESSES)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    versions: dict[int, str] = {}
    for index, writer in enumerate(writers):
        output, problems = writer.communicate(timeout=600)
        assert (writer.returncode, problems) == (0, "")
        for count, line in enumerate(output.splitlines()):
            version = int(line.split()[0])
            assert version not in versions
            versions[version] = f"w{index}-{count}"
    return versions


def _check_order(before: Snapshot, last: int) -> None:
    stamps = [only(before.store, version, "commitInfo")["inCommitTimestamp"] for version in range(last + 1)]
    assert stamps == sorted(set(stamps))
    bases = [only(before.store, version, "add")["baseRowId"] for version in range(1, last + 1)]
    assert bases == list(range(0, 10 * last, 10))
    assert not [a for a in commit_actions(before.store, last) if a.get("metaData")]
