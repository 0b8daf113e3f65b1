"""What the queries of a served owner's URLs may say: texts, which are read leniently."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from slackwater.owner.api.activity import MOST_COMMITS
from slackwater.owner.api.commits import LATEST
from slackwater.owner.api.fields import Instant, Known, Version
from slackwater.owner.api.values import camel


class _Query(BaseModel):
    model_config = ConfigDict(alias_generator=camel, extra="forbid")


class CommitsQuery(_Query):
    """Which commits."""

    start_version: Version
    end_version: Annotated[Known, Field(description="-1 for the latest.")] = LATEST
    with_data: bool = Field(False, description="Small commits carry their content.")


class RecentCommitsQuery(_Query):
    """How many."""

    limit: int = Field(50, ge=1, le=MOST_COMMITS)


class CutQuery(_Query):
    """Which state."""

    timestamp_ms: Instant | SkipJsonSchema[None] = Field(None, description="The latest state where none is given.")
