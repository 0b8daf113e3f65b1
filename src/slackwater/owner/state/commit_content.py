"""Content of a commit, built from a request's actions: timestamp, version, row ids of its files.

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
from slackwater.protocol.actions.transaction_groups import ACTION, GROUP_TAG, TransactionGroup
from slackwater.protocol.features import row_tracking
from slackwater.protocol.properties.properties import ICT_ENABLEMENT_TIMESTAMP, ICT_ENABLEMENT_VERSION

TRANSACTION_TABLES = "transactionTables"
"""Field of `commitInfo`: ids of all tables written by a transaction over several tables. All commit or none."""

_MOVABLE = frozenset({"commitInfo", "add", "domainMetadata", ACTION})


@dataclass(frozen=True, slots=True)
class ContentFacts:
    """Facts of a commit needed for the allocation of its version.

    `is_change`: the commit sets protocol or metadata. `mark` is the row id high-water mark after the commit, None if
    not set. `first_row_id` is its lowest new row id. `may_move`: the kinds of its actions allow a later version.
    """

    is_change: bool
    may_move: bool
    mark: int | None
    first_row_id: int | None


def facts_of(actions: Sequence[Action], commit_id: str) -> ContentFacts:
    """Return the facts of a commit. Raises InvalidArgument if the actions do not form a commit of `commit_id`."""
    if not actions or not isinstance(actions[0].get("commitInfo"), Mapping):
        raise InvalidArgument("the first action of a commit to a managed table must be its commitInfo")
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
    group: TransactionGroup | None = None,
) -> bytes:
    """Return the file content of the commit: `actions` with the owner's timestamp, one JSON object per line.

    `table_ids` are the tables of its transaction, recorded if there are several. `group` has the allocated versions of
    its transaction, and replaces the proposed versions. `shift` and `commit_version` apply to
    a moved commit in a table with row ids. `shift` is added to its new row ids. `commit_version` is the version of the
    rows.
    """
    lines = []
    for action in actions:
        if "commitInfo" in action:
            action = _stamped(action, timestamp_ms, table_ids, group)  # noqa: PLW2901
        elif "metaData" in action:
            action = enabled(action, version, timestamp_ms)  # noqa: PLW2901
        elif group is not None and ACTION in action:
            action = group.to_json()  # noqa: PLW2901
        elif shift is not None and "add" in action:
            action = _moved(action, shift, commit_version)  # noqa: PLW2901
        elif shift is not None and "domainMetadata" in action:
            mark = _mark([action["domainMetadata"]])
            if mark is not None:
                action = row_tracking.domain_metadata(mark + shift).to_json()  # noqa: PLW2901
        lines.append(orjson.dumps(action))
    return b"\n".join(lines) + b"\n"


def made_by(actions: Sequence[Action], name: str) -> list[Action]:
    """Return `actions` with the user `name` in `commitInfo`, replacing any other user."""
    return [
        {"commitInfo": {**action["commitInfo"], "userId": name, "userName": name}}
        if isinstance(action.get("commitInfo"), Mapping)
        else action
        for action in actions
    ]


def timestamp_of(data: bytes) -> int:
    """Return the in-commit timestamp from the first line of a commit file written by this package."""
    timestamp: int = orjson.loads(data[: data.index(b"\n")])["commitInfo"]["inCommitTimestamp"]
    return timestamp


def enabled(action: Action, version: int, timestamp_ms: int) -> Action:
    """Return the metadata, with the enablement timestamp if this commit enables in-commit timestamps."""
    configuration = action["metaData"].get("configuration") or {}
    if configuration.get(ICT_ENABLEMENT_VERSION) != str(version):
        return action
    return {
        "metaData": {
            **action["metaData"],
            "configuration": {**configuration, ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)},
        }
    }


def _stamped(action: Action, timestamp_ms: int, table_ids: Sequence[str], group: TransactionGroup | None) -> Action:
    node: dict[str, Any] = {**action["commitInfo"], "inCommitTimestamp": timestamp_ms, "timestamp": timestamp_ms}
    # Only the owner sets this field, because a recovery uses it to decide on commits of other tables.
    node.pop(TRANSACTION_TABLES, None)
    if len(table_ids) > 1:
        node[TRANSACTION_TABLES] = list(table_ids)
    if group is not None:
        node["tags"] = {**(node.get("tags") or {}), GROUP_TAG: group.transaction_id}
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
