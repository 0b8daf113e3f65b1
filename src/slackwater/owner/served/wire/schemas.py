"""The bodies of requests and answers as OpenAPI documents them; those of requests are checked against it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from slackwater.owner.api.commits import LATEST, TableState
from slackwater.owner.served.wire.commits import GREATEST_VERSION, ID_PATTERN, NAME_PATTERN, checked_actions

LOG_VALUE = "LogValue"
"""The name of `LOG_VALUE_SCHEMA` in the document, where it refers to itself."""
_LOG_VALUE_REF = {"$ref": f"#/components/schemas/{LOG_VALUE}"}
LOG_VALUE_SCHEMA = {
    "description": "What an action may hold: numbers fit 64 bits.",
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", "minimum": -(2**63), "exclusiveMaximum": 2**63},
        {"type": "array", "items": _LOG_VALUE_REF},
        {"type": "object", "additionalProperties": _LOG_VALUE_REF},
    ],
}


def _whole(value: Any) -> Any:
    # To JSON 1.0 is a whole number; beyond 53 bits a float may be another one than was meant.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


FROM_JSON = BeforeValidator(_whole)
Id = Annotated[str, Field(pattern=ID_PATTERN, description="A UUID in its canonical form.")]
Name = Annotated[str, Field(pattern=NAME_PATTERN, description="1 to 255 of A-Z a-z 0-9 _ . -, no dot in front.")]
Version = Annotated[int, Field(ge=0, le=GREATEST_VERSION), FROM_JSON]
EndVersion = Annotated[int, Field(ge=LATEST, le=GREATEST_VERSION), FROM_JSON]
Known = Annotated[int, Field(ge=-1, le=GREATEST_VERSION), FROM_JSON]
Milliseconds = Annotated[int, Field(ge=0, le=GREATEST_VERSION, description="Milliseconds since the epoch."), FROM_JSON]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=4096)]
# A model for each action would cost more than the commit.
Actions = Annotated[
    list[Any],
    AfterValidator(checked_actions),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "description": "Actions as in the log, commitInfo first.",
            "items": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": {"type": "object", "additionalProperties": _LOG_VALUE_REF},
            },
        }
    ),
]


class Body(BaseModel):
    """What is sent, in either direction: nothing but what its fields name, and of their types."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)


class CommitBody(Body):
    """One commit; of any number of equal requests one counts."""

    commit_id: Id
    version: Version
    actions: Actions
    may_move: bool = Field(False, description="A later version than the one asked for will do: a blind append.")
    is_replay: bool = Field(False, description="An earlier, equal request may have been carried out.")


class ProposalBody(Body):
    """The commit that makes a table this owner's."""

    table_id: Id
    name: Name
    location: Text = Field(description="The URL of the table's root, below a root of the owner.")
    commit_id: Id
    version: Version
    actions: Actions
    previous_timestamp_ms: Milliseconds | None = None
    row_id_mark: EndVersion | None = Field(None, description="The row id high-water mark; -1 before the first row id.")


class BackfillBody(Body):
    """Up to which version; -1 for the latest."""

    version: EndVersion = LATEST


class RepairBody(Body):
    """Which table; all where none is named."""

    table_id: Id | None = None


class CommitsQuery(BaseModel):
    """Which commits."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    start_version: Version
    end_version: EndVersion = Field(LATEST, description="-1 for the latest.")
    with_data: bool = Field(False, description="Small commits carry their content.")


class OwnerAnswer(Body):
    """Who answers."""

    owner_id: Id
    api_version: int


class CommitRecord(Body):
    """A ratified commit; `data` is its content, null where it was not asked for or is large."""

    version: Version
    file_name: str
    timestamp_ms: int
    size_bytes: int
    data: str | None


class CommitAnswer(Body):
    """The commit counts."""

    commit: CommitRecord
    latest_version: Known


class ConflictAnswer(Body):
    """The version is another commit's."""

    latest_version: Known


class CommitsAnswer(Body):
    """The ratified commits of the range that are not backfilled, ascending without a gap."""

    commits: list[CommitRecord]
    latest_version: Known


class TableRecord(Body):
    """What the owner knows of a table."""

    table_id: Id
    name: str
    location: str
    state: TableState
    ratified_version: Known
    backfilled_version: Known
    timestamp_ms: int
    problem: str


class TablesAnswer(Body):
    """The tables of the owner, by name."""

    tables: list[TableRecord]


class BackfilledAnswer(Body):
    """The version up to which `_delta_log` has the commits."""

    version: Known


class RepairedAnswer(Body):
    """What was done, in words."""

    done: list[str]


class HealthAnswer(Body):
    """Whether the owner answers."""

    status: str


class ErrorAnswer(Body):
    """An error: `error` is its class in the error tree of Slackwater."""

    error: str
    message: str
    retryable: bool = Field(description="The same work may be tried again on a fresh snapshot.")
    conflict: bool = Field(description="Another writer was there first.")
