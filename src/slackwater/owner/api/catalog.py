"""Interface of a commit owner that is a catalog of another product: places, names and credentials of tables.

A catalog chooses the location of a new table, and gives out credentials for its files. Source: unitycatalog
`api/delta.yaml` (staging tables, credentials).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

UNITY_SCHEME = "uc:"
"""Prefix of the address of a Unity Catalog's API, for `Lake.connect`."""

CREDENTIALS: Mapping[str, str] = {
    "aws_access_key_id": "s3.access-key-id",
    "aws_secret_access_key": "s3.secret-access-key",
    "aws_session_token": "s3.session-token",
    "azure_storage_sas_key": "azure.sas-token",
}
"""Storage options that are credentials, with their keys in the Delta API."""


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The place of a new table, with the table features and properties that its first version must have."""

    table_id: str
    location: str
    features: Sequence[str]
    properties: Mapping[str, str]


@runtime_checkable
class Catalog(Protocol):
    """A catalog that chooses the locations of its tables. Calls raise CommitOwnerUnavailable and NotAuthorized."""

    def table_names(self) -> list[str]:
        """Return the sorted names of the tables. Unlike `tables`, loads no table."""
        ...

    def has_table(self, name: str) -> bool:
        """Return whether the catalog has a table called `name`."""
        ...

    def stage_table(self, name: str) -> StagedTable:
        """Allocate the place of the new table `name`. Raises TableAlreadyExists, TableNotFound without the schema."""
        ...

    def storage_options(self, location: str) -> Mapping[str, str]:
        """Return the options for the files at the location of a known table: the caller's, or credentials.

        Credentials are valid for at least five minutes. Raises UnsupportedFeature for an unknown kind of credential.
        """
        ...

    def use_options(self, options_of: Callable[[str], Mapping[str, str]]) -> None:
        """Use the options of a session for locations, by their URL, in addition. Others precede them."""
        ...

    def drop(self, name: str) -> None:
        """Remove the table from the catalog, which may delete its files. Raises TableNotFound."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Rename the table within its schema.

        Raises InvalidArgument for another schema, TableNotFound, TableAlreadyExists.
        """
        ...
