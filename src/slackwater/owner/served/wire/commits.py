"""The values of the commit owner's API as JSON, in both directions, and what a request may hold.

Keys are camelCase, times ms since the epoch; the content of a commit is text, for commits are lines of JSON.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commits import (
    LATEST,
    Action,
    Commit,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    TableState,
)

API_VERSION = 1
GREATEST_VERSION = 2**63 - 1
ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
NAME_PATTERN = "^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,254}$"

Json = dict[str, Any]

_ID = re.compile(ID_PATTERN.removesuffix("$"))
_NAME = re.compile(NAME_PATTERN.removesuffix("$"))
_LONG = range(-(2**63), 2**63)
_DEEPEST = 64


def checked_id(text: str, what: str) -> str:
    """`text`, which is a UUID in its canonical form. Raises InvalidArgument that names `what`."""
    if isinstance(text, str) and _ID.fullmatch(text):
        return text
    raise InvalidArgument(f"the {what} is a UUID such as 8c2c4f0e-31f5-4d2c-9a53-0f3f0f8a7b11, found {text!r}")


def checked_name(text: str) -> str:
    """`text`, which can name a table or a token. Raises InvalidArgument."""
    if isinstance(text, str) and _NAME.fullmatch(text):
        return text
    raise InvalidArgument(
        f"a name has 1 to 255 of the characters A-Z a-z 0-9 _ . - and does not begin with a dot, found {text!r}"
    )


def checked_version(version: int, least: int = 0) -> int:
    """`version`, from `least` on. Raises InvalidArgument."""
    if isinstance(version, int) and not isinstance(version, bool) and least <= version <= GREATEST_VERSION:
        return version
    raise InvalidArgument(f"a version is a number from {least} to {GREATEST_VERSION}, found {version!r}")


def checked_actions(actions: Sequence[Any]) -> Sequence[Any]:
    """`actions`, each an object with one key whose value is an object. Raises InvalidArgument.

    Numbers have to fit 64 bits: beyond them they could not be written as they came. Time O(all values).
    """
    if not actions:
        raise InvalidArgument("a commit has at least one action, commitInfo, found none")
    for index, action in enumerate(actions):
        if not isinstance(action, dict) or len(action) != 1:
            raise InvalidArgument(f"action {index} is to be an object with exactly one key, such as add or remove")
        ((kind, value),) = action.items()
        if not isinstance(value, dict):
            raise InvalidArgument(f"action {index} is to hold an object under {kind!r}, found {type(value).__name__}")
        _check_values(value, index)
    return actions


def commit_content(actions: Sequence[Action]) -> orjson.Fragment:
    """The array of `actions` as JSON, made once for all the times that it is sent. Raises InvalidArgument."""
    try:
        return orjson.Fragment(orjson.dumps(list(actions), default=_plain))
    except TypeError as error:
        raise InvalidArgument(f"the actions of a commit cannot be written as JSON: {error}") from error


def request_to_json(request: CommitRequest, content: orjson.Fragment, is_replay: bool) -> Json:
    """The body of a commit or a release; `content` is that of `commit_content`."""
    return {
        "commitId": request.commit_id,
        "version": request.version,
        "mayMove": request.may_move,
        "isReplay": is_replay,
        "actions": content,
    }


def proposal_to_json(proposal: OwnershipProposal, content: orjson.Fragment) -> Json:
    """The body of a request to own a table; `content` is that of `commit_content`."""
    return {
        "tableId": proposal.table_id,
        "name": proposal.name,
        "location": proposal.location,
        "commitId": proposal.commit_id,
        "version": proposal.version,
        "previousTimestampMs": proposal.previous_timestamp_ms,
        "rowIdMark": proposal.row_id_mark,
        "actions": content,
    }


def commit_to_json(commit: Commit) -> Json:
    """`data` is null where it is not text: then the file has it."""
    return {
        "version": commit.version,
        "fileName": commit.file_name,
        "timestampMs": commit.timestamp_ms,
        "sizeBytes": commit.size_bytes,
        "data": _text(commit.data),
    }


def commit_from_json(found: Any) -> Commit:
    """Raises ValueError for what is no commit."""
    fields = _fields(found)
    data = fields.get("data")
    return Commit(
        version=_number(fields, "version"),
        file_name=_string(fields, "fileName"),
        timestamp_ms=_number(fields, "timestampMs"),
        size_bytes=_number(fields, "sizeBytes"),
        data=None if data is None else _string(fields, "data").encode(),
    )


def response_to_json(response: CommitResponse) -> Json:
    """The answer to a commit that counts."""
    return {"commit": commit_to_json(response.commit), "latestVersion": response.latest_version}


def response_from_json(found: Any) -> CommitResponse:
    """Raises ValueError for what is no answer to a commit."""
    fields = _fields(found)
    return CommitResponse(commit_from_json(fields.get("commit")), _number(fields, "latestVersion"))


def commits_to_json(response: GetCommitsResponse) -> Json:
    """The ratified commits of a range."""
    return {
        "commits": [commit_to_json(commit) for commit in response.commits],
        "latestVersion": response.latest_version,
    }


def commits_from_json(found: Any) -> GetCommitsResponse:
    """Raises ValueError for what is no list of commits, or one with a gap."""
    fields = _fields(found)
    commits = [commit_from_json(commit) for commit in _list(fields, "commits")]
    if any(later.version != earlier.version + 1 for earlier, later in itertools.pairwise(commits)):
        raise ValueError("the commits are not ascending without a gap")
    return GetCommitsResponse(commits, _number(fields, "latestVersion"))


def table_to_json(table: ManagedTable) -> Json:
    """What an owner knows of a table."""
    return {
        "tableId": table.table_id,
        "name": table.name,
        "location": table.location,
        "state": table.state.value,
        "ratifiedVersion": table.ratified_version,
        "backfilledVersion": table.backfilled_version,
        "timestampMs": table.timestamp_ms,
        "problem": table.problem,
    }


def table_from_json(found: Any) -> ManagedTable:
    """Raises ValueError for what describes no table."""
    fields = _fields(found)
    return ManagedTable(
        table_id=_string(fields, "tableId"),
        name=_string(fields, "name"),
        location=_string(fields, "location"),
        state=TableState(_string(fields, "state")),
        ratified_version=_number(fields, "ratifiedVersion"),
        backfilled_version=_number(fields, "backfilledVersion"),
        timestamp_ms=_number(fields, "timestampMs"),
        problem=_string(fields, "problem"),
    )


def tables_from_json(found: Any) -> list[ManagedTable]:
    """Raises ValueError for what is no list of tables."""
    return [table_from_json(table) for table in _list(_fields(found), "tables")]


def number_from_json(found: Any, key: str) -> int:
    """The whole number under `key`. Raises ValueError."""
    return _number(_fields(found), key)


def string_from_json(found: Any, key: str) -> str:
    """The text under `key`. Raises ValueError."""
    return _string(_fields(found), key)


def list_from_json(found: Any, key: str) -> list[Any]:
    """The array under `key`. Raises ValueError."""
    return _list(_fields(found), key)


def object_from_json(found: Any, key: str) -> Json:
    """The object under `key`. Raises ValueError."""
    value = _fields(found).get(key)
    if not isinstance(value, dict):
        raise _malformed(f"an object under {key!r}", value)
    return value


def strings_from_json(found: Any, key: str) -> list[str]:
    """The texts under `key`. Raises ValueError."""
    strings = _list(_fields(found), key)
    if not all(isinstance(text, str) for text in strings):
        raise _malformed(f"an array of texts under {key!r}", strings)
    return strings


def range_to_json(start_version: int, end_version: int, with_data: bool) -> dict[str, str]:
    """The query of a request for commits. Raises InvalidArgument."""
    return {
        "startVersion": str(checked_version(start_version)),
        "endVersion": str(checked_version(end_version, LATEST)),
        "withData": "true" if with_data else "false",
    }


def _check_values(value: Json, index: int) -> None:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for holder in level:
            for item in holder.values() if isinstance(holder, dict) else holder:
                if isinstance(item, (dict, list)):
                    below.append(item)
                elif isinstance(item, (int, float)) and not _LONG.start <= item < _LONG.stop:
                    raise InvalidArgument(f"action {index} holds the number {item}, which does not fit 64 bits")
        if not below:
            return
        level = below
    raise InvalidArgument(f"action {index} is nested more than {_DEEPEST} levels deep")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _fields(found: Any) -> Json:
    if not isinstance(found, dict):
        raise _malformed("a JSON object", found)
    return found


def _number(fields: Json, key: str) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _malformed(f"a whole number under {key!r}", value)
    return value


def _string(fields: Json, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise _malformed(f"text under {key!r}", value)
    return value


def _list(fields: Json, key: str) -> list[Any]:
    value = fields.get(key)
    if not isinstance(value, list):
        raise _malformed(f"an array under {key!r}", value)
    return value


def _malformed(expected: str, found: Any) -> ValueError:
    return ValueError(f"expected {expected}, found {type(found).__name__}")
