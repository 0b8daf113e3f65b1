"""Row tracking: fresh row ids and row commit versions of files, and the rules for enablement.

Source: delta-protocol.md "Row Tracking", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import orjson

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    ROW_TRACKING_SUSPENDED,
    TableProperties,
)

DOMAIN = "delta.rowTracking"
NO_ROW_IDS = -1
"""The high-water mark of a table without assigned row ids; the first row id is 0."""

# The protocol names the first key. The reference implementation and compatible engines know only the second.
_MARK_KEYS = ("highWaterMark", "rowIdHighWaterMark")
_PREFIXES = {MATERIALIZED_ROW_ID: "_row-id-col-", MATERIALIZED_ROW_COMMIT_VERSION: "_row-commit-version-col-"}
NAME_KEYS = tuple(_PREFIXES)
"""The properties that name the hidden columns of materialized row ids and row commit versions."""

_LARGEST_ROW_ID = 2**63 - 1
_MOST_TRIES = 10


def is_supported(table: TableConfiguration) -> bool:
    """Return whether files must get row ids: the table lists `rowTracking`."""
    return table.supports("rowTracking")


def is_enabled(table: TableConfiguration) -> bool:
    """Return whether every row has a reliable id: supported, and `delta.enableRowTracking` is true."""
    return table.is_active("rowTracking")


def assigns_row_ids(table: TableConfiguration) -> bool:
    """Return whether new files get row ids: supported, and not suspended by `delta.rowTrackingSuspended`.

    The reference implementation suspends row tracking while it removes row ids to drop the feature.
    """
    return is_supported(table) and not table.properties.flag(ROW_TRACKING_SUSPENDED)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """Return the highest assigned row id, stored in the metadata domain; -1 without a domain.

    Reads both known keys and uses the higher value, so that no id is assigned twice. Raises CorruptTable for a domain
    without either key, or with a value that is not a number.
    """
    domain = domains.get(DOMAIN)
    if domain is None or domain.removed:
        return NO_ROW_IDS
    try:
        node = orjson.loads(domain.configuration)
        marks = [node[key] for key in _MARK_KEYS if key in node]
    except (orjson.JSONDecodeError, TypeError) as error:
        raise CorruptTable(f"domain {DOMAIN} must be a JSON object, found {domain.configuration[:200]!r}") from error
    if not marks or not all(isinstance(mark, int) and not isinstance(mark, bool) for mark in marks):
        raise CorruptTable(f"domain {DOMAIN} must have a number as highWaterMark, found {domain.configuration[:200]!r}")
    highest: int = max(NO_ROW_IDS, *marks)
    return highest


def domain_metadata(mark: int) -> DomainMetadata:
    """Return the action with the high-water mark, under the protocol's key and the key of other engines."""
    return DomainMetadata(DOMAIN, orjson.dumps(dict.fromkeys(_MARK_KEYS, mark)).decode())


def assign(adds: Sequence[AddFile], mark: int, version: int) -> tuple[list[AddFile], int]:
    """Return `adds` with missing row ids and row commit versions assigned, and the new high-water mark.

    Files without `base_row_id` get consecutive fresh ids above `mark`, in order, one id per physical row. Files without
    `default_row_commit_version` get `version`. Existing values stay, because the file is committed again. Pass the
    files as staged at every commit attempt.

    Raises InvalidArgument, naming the file, for a file without `numRecords` or with ids never assigned by the table.
    Raises CorruptTable if the ids are exhausted.
    """
    assigned: list[AddFile] = []
    highest = mark
    for add in adds:
        base, commit_version = add.base_row_id, add.default_row_commit_version
        if base is None:
            base, highest = highest + 1, highest + _physical_rows(add)
            if highest > _LARGEST_ROW_ID:
                raise CorruptTable(f"{add.path}: the row ids of the table are used up, the highest was {mark}")
        else:
            _validate_recommitted(add, base, mark)
        if commit_version is None:
            commit_version = version
        if (base, commit_version) != (add.base_row_id, add.default_row_commit_version):
            add = replace(add, base_row_id=base, default_row_commit_version=commit_version)  # noqa: PLW2901
        assigned.append(add)
    return assigned, highest


def materialized_names(
    properties: TableProperties, taken_names: Collection[str], new_name: Callable[[], str]
) -> dict[str, str]:
    """Return the two properties with the names of the hidden columns for materialized row ids and commit versions.

    Names in `properties` never change. New names are created with `new_name` (a fresh unique text at each call) and
    differ from all `taken_names`: the table's column names, physical names included. Raises InvalidArgument if
    `new_name` creates no free name.
    """
    taken = {name.lower() for name in taken_names}
    names: dict[str, str] = {}
    for key, prefix in _PREFIXES.items():
        names[key] = properties[key] if key in properties else _free_name(prefix, taken, new_name)
        taken.add(names[key].lower())
    return names


def validate_column_names(properties: TableProperties, names: Collection[str]) -> None:
    """Validate that no column name, display or physical, equals a hidden column of row tracking.

    Raises InvalidArgument, naming the column.
    """
    hidden = {properties[key].lower() for key in _PREFIXES if key in properties}
    clash = sorted(name for name in names if name.lower() in hidden)
    if clash:
        raise InvalidArgument(
            f"the column name {', '.join(clash)} belongs to a hidden column of row tracking. Choose another name",
            error_class="DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED",
        )


def validate_row_tracking(table: TableConfiguration, files_without_ids: int = 0) -> None:
    """Validate a table with row tracking enabled.

    `files_without_ids` is the number of live files after the commit without `baseRowId` or `defaultRowCommitVersion`.
    Raises InvalidArgument if row tracking is also suspended, the hidden columns have no names, or files lack ids.
    """
    properties = table.properties
    if not is_enabled(table):
        return
    if properties.flag(ROW_TRACKING_SUSPENDED):
        raise InvalidArgument(
            f"{ENABLE_ROW_TRACKING} and {ROW_TRACKING_SUSPENDED} are both true. Set one to false",
            error_class="DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
        )
    if missing := [key for key in _PREFIXES if key not in properties]:
        raise InvalidArgument(f"{ENABLE_ROW_TRACKING} is true, but the table lacks {' and '.join(missing)}")
    if files_without_ids:
        raise InvalidArgument(
            f"{ENABLE_ROW_TRACKING} is true, but {files_without_ids} live files have no row ids. Commit them again "
            "with ids, before this commit or in it"
        )


def _physical_rows(add: AddFile) -> int:
    rows = add.num_records
    if rows is None or rows < 0:
        raise InvalidArgument(
            f"{add.path}: row tracking needs the number of rows of every file, found numRecords {rows} in its stats",
            error_class="DELTA_ROW_ID_ASSIGNMENT_WITHOUT_STATS",
        )
    return rows


def _validate_recommitted(add: AddFile, base: int, mark: int) -> None:
    last = base + max((add.num_records or 0) - 1, 0)
    if base < 0 or last > mark:
        raise InvalidArgument(
            f"{add.path}: has the row ids {base} to {last}, but the table assigned ids only up to {mark}. Omit "
            "baseRowId for a new file"
        )


def _free_name(prefix: str, taken: Collection[str], new_name: Callable[[], str]) -> str:
    for _ in range(_MOST_TRIES):
        name = prefix + new_name()
        if name.lower() not in taken:
            return name
    raise InvalidArgument(f"found no free column name that starts with {prefix} in {_MOST_TRIES} tries")
