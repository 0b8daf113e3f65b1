"""Forms of a table's columns and protocol in Unity Catalog's Delta API.

Their keys are those of the log with hyphens. Source: unitycatalog `api/delta.yaml` (DeltaStructType, DeltaProtocol).
"""

from __future__ import annotations

from typing import Any

import orjson

from slackwater.protocol.actions.actions import Protocol

# Keys of types in the log, and in the API.
_KEBAB = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def protocol_json(protocol: Protocol) -> dict[str, Any]:
    """Return the protocol as the API writes it."""
    features = {"reader-features": protocol.reader_features, "writer-features": protocol.writer_features}
    return {
        "min-reader-version": protocol.min_reader_version,
        "min-writer-version": protocol.min_writer_version,
        **{key: list(names) for key, names in features.items() if names is not None},
    }


def columns_json(schema_string: str) -> Any:
    """Return the columns of a `schemaString` as the API writes them."""
    return _type_json(orjson.loads(schema_string))


def _type_json(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node.get("type") == "struct":
        return {**node, "fields": [{**field, "type": _type_json(field["type"])} for field in node["fields"]]}
    return {_KEBAB.get(key, key): _type_json(value) if key.endswith("Type") else value for key, value in node.items()}
