"""A table's protocol and metadata as one value, with what their texts say.

Source: delta-protocol.md "Change Metadata", "Table Features", "Reader Requirements for Column Mapping".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from slackwater.errors import CorruptTable
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import ID, NAME, NONE
from slackwater.protocol.features.table_features import known_feature, supported_features
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, TableProperties
from slackwater.protocol.schema.schema import StructType, parse_schema


@dataclass(frozen=True)
class TableConfiguration:
    """What a table asks of those who read it and write to it: its protocol and its metadata, which go together.

    A value that never changes. Each text in it is parsed once, when it is first asked for: malformed metadata raises
    where it is used, and not before.
    """

    protocol: Protocol
    metadata: Metadata

    @cached_property
    def supported_features(self) -> frozenset[str]:
        """The features that the protocol lists or implies, by their one spelling."""
        return supported_features(self.protocol)

    @cached_property
    def properties(self) -> TableProperties:
        """The table properties; keys are found in any case."""
        return TableProperties(self.metadata.configuration)

    @cached_property
    def schema(self) -> StructType:
        """The schema by display names. Raises InvalidSchema."""
        return parse_schema(self.metadata.schema_string)

    @cached_property
    def column_mapping_mode(self) -> str:
        """`none`, `name` or `id`: the property, where the protocol supports column mapping, else `none`.

        Raises CorruptTable for another value. Source: "Reader Requirements for Column Mapping".
        """
        if not self.supports("columnMapping"):
            return NONE
        mode = self.properties.get(COLUMN_MAPPING_MODE, NONE).lower()
        if mode not in (NONE, NAME, ID):
            raise CorruptTable(f"table property {COLUMN_MAPPING_MODE} must be none, name or id, found {mode!r}")
        return mode

    def supports(self, feature: str) -> bool:
        """Whether the protocol lists or implies `feature`, given by its one spelling."""
        return feature in self.supported_features

    def is_active(self, feature: str) -> bool:
        """Whether a feature with a property of its own is supported and turned on. Source: "Active Features".

        Raises CorruptTable for a property that must be true or false and is neither.
        """
        known = known_feature(feature)
        return known is not None and self.supports(feature) and known.is_enabled_by(self.properties)

    def changed(self, protocol: Protocol | None = None, metadata: Metadata | None = None) -> TableConfiguration:
        """The table with another protocol or other metadata; `self` where they are the same.

        What is parsed already, and is not affected, is not parsed again.
        """
        new = TableConfiguration(protocol or self.protocol, metadata or self.metadata)
        if new == self:
            return self
        stays = {
            "supported_features": new.protocol == self.protocol,
            "properties": new.metadata.configuration == self.metadata.configuration,
            "schema": new.metadata.schema_string == self.metadata.schema_string,
        }
        known = vars(self)
        vars(new).update({name: known[name] for name, same in stays.items() if same and name in known})
        return new
