"""Stores of a catalog's tables, opened with the catalog's credentials.

Source: unitycatalog `api/delta.yaml` (DeltaStorageCredential).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from slackwater.errors import InvalidArgument
from slackwater.owner.unity.catalog_client import CatalogClient, StorageCredential, TableName
from slackwater.owner.unity.known_tables import KnownTables
from slackwater.storage.hadoop_settings import merged_options
from slackwater.storage.location import LOCAL, parse_location
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore

_EXPIRY_MARGIN_MS = 300_000
# Storage options that make credentials of the catalog unnecessary.
_KEYS = frozenset(
    {
        "aws_access_key_id",
        "access_key_id",
        "aws_skip_signature",
        "skip_signature",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "google_service_account",
        "google_service_account_key",
        "google_application_credentials",
    }
)
_log = logging.getLogger(__name__)


class CatalogStores:
    """Opens the stores of known tables. Options of the caller precede credentials, and these the session's options."""

    def __init__(self, client: CatalogClient, known: KnownTables, options: Mapping[str, str]) -> None:
        """`options` are storage options of the caller. If these have keys, no credentials are requested."""
        self._client = client
        self._known = known
        self._options = options
        self._of_session: Callable[[str], Mapping[str, str]] | None = None
        self._has_own_keys = any(key.lower() in _KEYS for key in options)

    def use_session_options(self, options_of: Callable[[str], Mapping[str, str]]) -> None:
        """Use the options of a session for locations, by their URL, in addition."""
        self._of_session = options_of

    def open(self, location: str) -> ObjectStore:
        """Open the store of the table at `location`. Raises the errors of `options` and `open_store`."""
        return open_store(location, self.options(location))

    def options(self, location: str) -> Mapping[str, str]:
        """Return the storage options for the table at `location`. See Catalog."""
        if parse_location(location).scheme == LOCAL:
            return self._options
        session = {} if self._of_session is None else self._of_session(location)
        found = self._known.at(location)
        if found is None or self._has_own_keys:
            return merged_options(session, self._options)
        table_id, known = found
        options = known.options
        if known.expires_ms < _now_ms() + _EXPIRY_MARGIN_MS:
            options = self._known.record_credentials(table_id, self._requested(known.name))
        return merged_options(merged_options(session, options), self._options)

    def _requested(self, name: TableName) -> list[StorageCredential]:
        try:
            return self._client.credentials(name)
        except InvalidArgument as error:
            # The environment may have keys. If not, the error of the store follows.
            _log.warning("%s: %s", name, error)
            return []


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
