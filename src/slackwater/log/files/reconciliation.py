"""Action reconciliation of single JSON actions, for the few actions of some commits instead of a whole table.

Source: delta-protocol.md "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slackwater.protocol.actions.deletion_vectors import unique_id_of
from slackwater.protocol.actions.paths import canonical_path

Action = Mapping[str, Any]

_NAMED_BY = {"txn": "appId", "domainMetadata": "domain"}
_ORDER = {"protocol": 0, "metaData": 1, "txn": 2, "domainMetadata": 3, "remove": 4, "add": 5}
STATEFUL = frozenset(_ORDER)
"""The kinds of actions that make up the state of a table."""


def reconcile(actions: Iterable[Action]) -> list[Action]:
    """Return the actions not overridden by a later action, from `actions` in log order.

    Protocol and metadata come first. Each action is `{kind: {…}}` of one of the STATEFUL kinds. Removes and removed
    metadata domains stay, because they may override earlier commits. Raises KeyError, TypeError or AttributeError for
    an action without its key field.
    """
    newest: dict[tuple[str, ...], Action] = {}
    for action in actions:
        kind, node = next(iter(action.items()))
        if kind in ("add", "remove"):
            newest["file", file_key(node)] = action
        else:
            newest[(kind, node[_NAMED_BY[kind]]) if kind in _NAMED_BY else (kind,)] = action
    return sorted(newest.values(), key=lambda action: _ORDER[next(iter(action))])


def file_key(node: Mapping[str, Any]) -> str:
    """Return the primary key of the logical file of an `add` or `remove`, see `file_actions.file_keys`."""
    path, vector = canonical_path(node["path"]), node.get("deletionVector")
    if vector is None:
        return path
    return f"{path}\t{unique_id_of(vector['storageType'], vector['pathOrInlineDv'], vector.get('offset'))}"
