import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions import file_names
from slackwater.protocol.actions.file_names import LogFile, LogFileKind, parse_log_file

CASES = json.loads((Path(__file__).parents[2] / "data/vectors/log_file_names.json").read_text())["cases"]
KINDS = {
    "commit": LogFileKind.COMMIT,
    "crc": LogFileKind.CRC,
    "classic checkpoint": LogFileKind.CHECKPOINT_CLASSIC,
    "uuid checkpoint": LogFileKind.CHECKPOINT_UUID,
    "unknown": LogFileKind.OTHER,
    "ignored": None,
    "multi-part 1 of 2": LogFileKind.CHECKPOINT_MULTIPART,
    "multi-part 2 of 2": LogFileKind.CHECKPOINT_MULTIPART,
    "compacted 8..15": LogFileKind.COMPACTED,
}
ANY_UUID = uuid.UUID("3a0d65cd-4056-49b8-937b-95f9e3ee90e5")
VERSIONS = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_names_are_told_apart_as_other_engines_do(case: dict[str, str]) -> None:
    parsed = parse_log_file(case["name"])
    assert (parsed and parsed.kind) == KINDS[case["kind"]]
    if parsed:
        assert parsed.name == case["name"]
        assert parsed.version == int(case["name"][:20])


def test_a_multipart_checkpoint_tells_its_part_and_their_number() -> None:
    name = "00000000000000000008.checkpoint.0000000002.0000000003.parquet"
    assert parse_log_file(name) == LogFile(LogFileKind.CHECKPOINT_MULTIPART, 8, name, part=2, num_parts=3)


def test_a_compacted_file_tells_its_range_and_must_not_run_backwards() -> None:
    name = "00000000000000000004.00000000000000000006.compacted.json"
    assert parse_log_file(name) == LogFile(LogFileKind.COMPACTED, 4, name, end_version=6)
    assert parse_log_file("00000000000000000006.00000000000000000004.compacted.json") is None


def test_a_staged_commit_lies_in_its_own_directory() -> None:
    name = f"_commits/00000000000000000007.{ANY_UUID}.json"
    assert parse_log_file(name) == LogFile(LogFileKind.STAGED_COMMIT, 7, name, uuid=str(ANY_UUID))
    assert parse_log_file("_commits/00000000000000000007.json") is None
    assert parse_log_file(f"_sidecars/{ANY_UUID}.parquet") is None


@pytest.mark.parametrize("name", ["\u0660" * 20 + ".json", "00000000000000000001.json\n", "", "/", "x" * 1000])
def test_names_that_only_look_like_commits_are_not_commits(name: str) -> None:
    parsed = parse_log_file(name)
    assert parsed is None or parsed.kind is LogFileKind.OTHER


@given(VERSIONS, st.uuids())
def test_built_names_are_parsed_back(version: int, unique: uuid.UUID) -> None:
    names = {
        file_names.commit_name(version): LogFileKind.COMMIT,
        file_names.crc_name(version): LogFileKind.CRC,
        file_names.checkpoint_name(version): LogFileKind.CHECKPOINT_CLASSIC,
        file_names.uuid_checkpoint_name(version, unique, "parquet"): LogFileKind.CHECKPOINT_UUID,
        file_names.uuid_checkpoint_name(version, str(unique), "json"): LogFileKind.CHECKPOINT_UUID,
        file_names.compacted_name(version, version): LogFileKind.COMPACTED,
        file_names.staged_commit_name(version, unique): LogFileKind.STAGED_COMMIT,
    }
    for name, kind in names.items():
        parsed = parse_log_file(name)
        assert parsed is not None
        assert (parsed.kind, parsed.version, parsed.name) == (kind, version, name)


@given(VERSIONS, VERSIONS)
def test_names_sort_as_versions_do(one: int, other: int) -> None:
    assert (file_names.commit_name(one) < file_names.commit_name(other)) == (one < other)


@given(st.text(max_size=60))
def test_no_name_makes_parsing_fail(name: str) -> None:
    parsed = parse_log_file(name)
    assert parsed is None or parsed.version >= 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: file_names.commit_name(-1),
        lambda: file_names.version_prefix(2**63),
        lambda: file_names.compacted_name(2, 1),
        lambda: file_names.uuid_checkpoint_name(1, ANY_UUID, "orc"),
        lambda: file_names.staged_commit_name(1, "no-uuid"),
    ],
)
def test_names_that_cannot_be_are_not_built(build: Callable[[], str]) -> None:
    with pytest.raises(InvalidArgument):
        build()
