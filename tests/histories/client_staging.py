"""An owner whose clients stage some of their commits themselves, as those of Unity Catalog do."""

from __future__ import annotations

import time
import uuid

from slackwater.errors import TimestampConflict
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse, StagedCommit
from slackwater.owner.commit.pinned_properties import load_pinned_properties
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.commit_content import content
from slackwater.protocol.actions.file_names import staged_file_name, staged_path
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, form_in
from slackwater.storage.open import open_store

_TRIES = 5


class ClientStaging(EmbeddedOwner):
    """Half of the commits to one catalog-managed table are staged by the client, with a timestamp of its clock.

    The clock is not behind the owner's time. If it were, the commit could be before an acknowledged commit to another
    table. Source: docs/guarantees.md "Gaps".
    """

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        is_staged = uuid.UUID(request.commit_id).int % 2 == 0
        if not is_staged or not self._is_catalog_managed(request.table_id):
            return super().commit(request)
        location = next(table.location for table in self.tables() if table.table_id == request.table_id)
        store = open_store(location)
        for _ in range(_TRIES):
            timestamp_ms = max(self._clock.now_ms(), self.cut().timestamp_ms)
            data = content(request.actions, request.version, timestamp_ms)
            name = staged_file_name(request.version, uuid.uuid4(), CATALOG_MANAGED.directory)
            store.put_if_absent(staged_path(name), data)
            file_name = name.removeprefix(f"{CATALOG_MANAGED.directory}/")
            try:
                return self.commit_staged(
                    StagedCommit(request.table_id, request.version, timestamp_ms, file_name, len(data))
                )
            except TimestampConflict:
                # Others read or wrote the table in this millisecond.
                time.sleep(0.002)
        return super().commit(request)

    def _is_catalog_managed(self, table_id: str) -> bool:
        return form_in(load_pinned_properties(self._database, table_id) or {}) is CATALOG_MANAGED
