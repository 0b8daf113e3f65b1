"""A request's actions as the commit that they become: its time, its version, the row ids of its files.

Source: in-commit-timestamps.md "Writer Requirements", delta-protocol.md "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.owner.api.actions import Action
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.features import row_tracking
from slackwater.protocol.properties.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION

TRANSACTION_TABLES = "transactionTables"
"""In a `commitInfo`: the ids of the tables that its transaction writes, if several: all of it counts, or none."""

_MOVABLE = frozenset({"commitInfo", "add", "domainMetadata"})


@dataclass(frozen=True, slots=True)
class ContentFacts:
    """What the owner must know of a commit to place it.

    `is_change`: it sets protocol or metadata. `mark` is the row id high-water mark after it, None where it does not
    speak of it; `first_row_id` the lowest row id that it gives out. `may_move`: the kinds of its actions allow it.
    """

    is_change: bool
    may_move: bool
    mark: int | None
    first_row_id: int | None


def facts_of(actions: Sequence[Action], commit_id: str) -> ContentFacts:
    """The facts of a commit. Raises InvalidArgument for actions that are no commit of `commit_id`."""
    if not actions or not isinstance(actions[0].get("commitInfo"), Mapping):
        raise InvalidArgument("the first action of a commit to a managed table is its commitInfo")
    if actions[0]["commitInfo"].get("txnId") != commit_id:
        raise InvalidArgument(
            f"commitInfo.txnId must be the commit's id {commit_id}, found {actions[0]['commitInfo'].get('txnId')!r}"
        )
    kinds = {kind for action in actions for kind in action}
    domains = [action["domainMetadata"] for action in actions if "domainMetadata" in action]
    mark = _mark(domains)
    fresh = [a["add"]["baseRowId"] for a in actions if isinstance(a.get("add", {}).get("baseRowId"), int)]
    return ContentFacts(
        is_change=not kinds.isdisjoint(("protocol", "metaData")),
        may_move=kinds <= _MOVABLE and all(node.get("domain") == row_tracking.DOMAIN for node in domains),
        mark=mark,
        first_row_id=min(fresh) if fresh and mark is not None else None,
    )


def content(
    actions: Sequence[Action],
    version: int,
    timestamp_ms: int,
    shift: int | None = None,
    commit_version: int | None = None,
    table_ids: Sequence[str] = (),
) -> bytes:
    """The file of the commit: `actions` with the owner's time, one JSON object a line.

    `table_ids`: the tables of its transaction, which are named where they are several.

    Where the commit was moved in a table with row ids, `shift` is added to those it gives out, and `commit_version` is
    the version that their rows are from.
    """
    lines = []
    for action in actions:
        if "commitInfo" in action:
            action = _stamped(action, timestamp_ms, table_ids)  # noqa: PLW2901
        elif "metaData" in action:
            action = enabled(action, version, timestamp_ms)  # noqa: PLW2901
        elif shift is not None and "add" in action:
            action = _moved(action, shift, commit_version)  # noqa: PLW2901
        elif shift is not None and "domainMetadata" in action:
            mark = _mark([action["domainMetadata"]])
            if mark is not None:
                action = row_tracking.domain_metadata(mark + shift).to_json()  # noqa: PLW2901
        lines.append(orjson.dumps(action))
    return b"\n".join(lines) + b"\n"


def made_by(actions: Sequence[Action], name: str) -> list[Action]:
    """`actions` whose `commitInfo` says that `name` did it, whatever it said before."""
    return [
        {"commitInfo": {**action["commitInfo"], "userId": name, "userName": name}}
        if isinstance(action.get("commitInfo"), Mapping)
        else action
        for action in actions
    ]


def timestamp_of(data: bytes) -> int:
    """The in-commit timestamp in the file of a commit of ours, which its first line holds."""
    timestamp: int = orjson.loads(data[: data.index(b"\n")])["commitInfo"]["inCommitTimestamp"]
    return timestamp


def enabled(action: Action, version: int, timestamp_ms: int) -> Action:
    """The metadata; its record of since when commits have timestamps may be of this very commit."""
    configuration = action["metaData"].get("configuration") or {}
    if configuration.get(ICT_ENABLEMENT_VERSION) != str(version):
        return action
    return {
        "metaData": {
            **action["metaData"],
            "configuration": {**configuration, ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)},
        }
    }


def _stamped(action: Action, timestamp_ms: int, table_ids: Sequence[str]) -> Action:
    node: dict[str, Any] = {**action["commitInfo"], "inCommitTimestamp": timestamp_ms, "timestamp": timestamp_ms}
    # No writer says of itself what would let a commit of another count.
    node.pop(TRANSACTION_TABLES, None)
    if len(table_ids) > 1:
        node[TRANSACTION_TABLES] = list(table_ids)
    return {"commitInfo": {"inCommitTimestamp": timestamp_ms, **node}}


def _moved(action: Action, shift: int, commit_version: int | None) -> Action:
    node = action["add"]
    if not isinstance(node.get("baseRowId"), int):
        return action
    return {"add": {**node, "baseRowId": node["baseRowId"] + shift, "defaultRowCommitVersion": commit_version}}


def _mark(domains: Sequence[Mapping[str, Any]]) -> int | None:
    found = [d for d in domains if d.get("domain") == row_tracking.DOMAIN and not d.get("removed")]
    if not found:
        return None
    domain = DomainMetadata.from_json(found[-1], "a commit's row tracking")
    return row_tracking.high_water_mark({row_tracking.DOMAIN: domain})
