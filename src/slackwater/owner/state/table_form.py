"""The form in which a table is managed, from the properties that the owner pinned at adoption.

Source: managed-commits.md "Commit Files"; PROTOCOL.md "Terminology: Commits".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import orjson

from slackwater.owner.api.actions import Action
from slackwater.protocol.features.managed_commits import MANAGED_COMMIT, ManagedForm, form_in


@lru_cache(maxsize=1024)
def staged_directory(pinned: str | None) -> str:
    """Return the directory of staged commits of a table with these `pinned` properties in JSON."""
    return (form_in({} if pinned is None else orjson.loads(pinned)) or MANAGED_COMMIT).directory


def form_of_commit(actions: Sequence[Action]) -> ManagedForm | None:
    """Return the form in which a commit names an owner of this package, None without metadata of such an owner."""
    found = [
        action["metaData"].get("configuration") or {} for action in actions if isinstance(action.get("metaData"), dict)
    ]
    return form_in(found[-1]) if found else None
