"""The protocol and the metadata of a table as one immutable value, with typed access to both.

Source: delta-protocol.md "Change Metadata", "Table Features", "Reader Requirements for Column Mapping".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.errors import CorruptTable
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import ID, NAME, NONE
from slackwater.protocol.features.data_format import validate_parquet
from slackwater.protocol.features.table_features import known_feature, supported_features, validate_writable
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, TableProperties
from slackwater.protocol.schema.schema import StructType, parse_schema
from slackwater.protocol.unsupported.redirects import refuse_redirect_of_writers

# The key in a configuration's `__dict__` after `require_writable` passed.
_WRITABLE = "_is_writable"


@dataclass(frozen=True)
class TableConfiguration:
    """The protocol and the metadata of one table version: the requirements for its readers and writers.

    Immutable. Texts are parsed once, on first access. Malformed metadata raises on access, not on construction.
    """

    protocol: Protocol
    metadata: Metadata

    @cached_property
    def supported_features(self) -> frozenset[str]:
        """The canonical names of the features listed or implied by the protocol."""
        return supported_features(self.protocol)

    @cached_property
    def properties(self) -> TableProperties:
        """The table properties; lookup of keys ignores case."""
        return TableProperties(self.metadata.configuration)

    @cached_property
    def schema(self) -> StructType:
        """The schema with display names. Raises InvalidSchema if `schemaString` is malformed."""
        return parse_schema(self.metadata.schema_string)

    @cached_property
    def column_mapping_mode(self) -> str:
        """The column mapping mode: `none`, `name` or `id`. Always `none` without protocol support for column mapping.

        Raises CorruptTable if the property has another value. Source: "Reader Requirements for Column Mapping".
        """
        if not self.supports("columnMapping"):
            return NONE
        mode = self.properties.get(COLUMN_MAPPING_MODE, NONE).lower()
        if mode not in (NONE, NAME, ID):
            raise CorruptTable(f"table property {COLUMN_MAPPING_MODE} must be none, name or id, found {mode!r}")
        return mode

    def require_writable(self, where: str) -> None:
        """Validate that this package can write to the table. A configuration that passed is not checked again.

        `where` is the table, for the message. Raises UnsupportedFeature with the target of a redirected table. Also
        raises as `validate_writable` and `validate_parquet`.
        """
        if _WRITABLE not in vars(self):
            refuse_redirect_of_writers(self.protocol, self.metadata.configuration, where)
            validate_writable(self.protocol, where)
            validate_parquet(self.metadata, where)
            vars(self)[_WRITABLE] = True

    def supports(self, feature: str) -> bool:
        """Return whether the protocol lists or implies `feature`, a canonical name."""
        return feature in self.supported_features

    def is_active(self, feature: str) -> bool:
        """Return whether `feature` is supported and enabled by its table property. Source: "Active Features".

        Raises CorruptTable if a boolean property is neither true nor false.
        """
        known = known_feature(feature)
        return known is not None and self.supports(feature) and known.is_enabled_by(self.properties)

    def changed(self, protocol: Protocol | None = None, metadata: Metadata | None = None) -> TableConfiguration:
        """Return the configuration with another protocol or metadata, or `self` if both are unchanged.

        Copies the parsed values of unchanged parts.
        """
        new = TableConfiguration(protocol or self.protocol, metadata or self.metadata)
        if new == self:
            return self
        stays = {
            "supported_features": new.protocol == self.protocol,
            "properties": new.metadata.configuration == self.metadata.configuration,
            "schema": new.metadata.schema_string == self.metadata.schema_string,
            _WRITABLE: new.protocol == self.protocol and new.metadata.format == self.metadata.format,
        }
        known = vars(self)
        vars(new).update({name: known[name] for name, same in stays.items() if same and name in known})
        return new
