"""Query parameters of a served owner's URLs. The server reads them from text, leniently.

The client imports this module only for a request with parameters, because it needs pydantic.
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commits import LATEST
from slackwater.owner.api.field_types import Instant, Known, Version
from slackwater.owner.api.monitoring import MOST_COMMITS
from slackwater.owner.api.wire_model import camel, fault


class _Query(BaseModel):
    model_config = ConfigDict(alias_generator=camel, extra="forbid")

    @classmethod
    def sent(cls, **asked: Any) -> dict[str, str]:
        """Return the query with the fields `asked`. Raises InvalidArgument for invalid values."""
        try:
            query = cls.model_validate({camel(name): value for name, value in asked.items()}, strict=True)
        except ValidationError as error:
            raise InvalidArgument(f"the query is not valid: {fault(error)}") from None
        return {camel(name): orjson.dumps(value).decode() for name, value in query if value is not None}


class CommitsQuery(_Query):
    """Range of commits."""

    start_version: Version
    end_version: Annotated[Known, Field(description="-1 for the latest.")] = LATEST
    with_data: bool = Field(False, description="Small commits carry their content.")


class RecentCommitsQuery(_Query):
    """Number of commits."""

    limit: int = Field(50, ge=1, le=MOST_COMMITS)


class CutQuery(_Query):
    """Instant of the cut."""

    timestamp_ms: Instant | SkipJsonSchema[None] = Field(None, description="The latest state where none is given.")
