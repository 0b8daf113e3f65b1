"""Pinned properties of a table: written by the owner at adoption, and changed by no later commit.

Source: managed-commits.md "Managed Commit Enablement"; in-commit-timestamps.md "Writer Requirements".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
import sqlalchemy as sa

from slackwater.owner.api.actions import Action
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import tables
from slackwater.owner.state.commit_content import enabled
from slackwater.protocol.features.managed_commits import kept_properties


def pinned_properties_json(actions: Sequence[Action], version: int, timestamp_ms: int) -> str | None:
    """Return the pinned properties in JSON, from an adopting commit and its version and time.

    None if the commit has no metadata.
    """
    for action in actions:
        if "metaData" in action:
            node = enabled(action, version, timestamp_ms)["metaData"]
            return orjson.dumps(kept_properties(node.get("configuration") or {})).decode()
    return None


def load_pinned_properties(database: Database, table_id: str) -> Mapping[str, str] | None:
    """Return the pinned properties of the table.

    None for an unknown table, and for a table adopted before the owner recorded pinned properties.
    """
    statement = sa.select(tables.c.kept).where(tables.c.table_id == table_id)
    found = database.read(lambda c: c.execute(statement).scalar())
    return None if found is None else orjson.loads(found)
