"""The Delta schema: data types, fields, and their JSON form.

Source: delta-protocol.md "Schema Serialization Format".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import orjson

from slackwater.errors import InvalidSchema

PRIMITIVE_NAMES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "void",
    }
)
_ALIASES = {"null": "void", "int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)\Z")
_TEXT = re.compile(r"(char|varchar)\(\s*\d+\s*\)\Z")
_GEOSPATIAL = re.compile(r"(geometry|geography)(?:\(([^()]*)\))?\Z")
_EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_EMPTY: Mapping[str, Any] = MappingProxyType({})

# Metadata keys of a field. Source: "Column Metadata", "Default Columns", "Generated Columns", "Column Invariants".
COMMENT = "comment"
CURRENT_DEFAULT = "CURRENT_DEFAULT"
EXISTS_DEFAULT = "EXISTS_DEFAULT"
GENERATION_EXPRESSION = "delta.generationExpression"
INVARIANTS = "delta.invariants"
IDENTITY_PREFIX = "delta.identity."
COLLATIONS = "__COLLATIONS"
"""The metadata key of a column's collations, by paths that begin with its name.

`parse_schema` moves them into the types, and `schema_to_json` back. Only entries without a string at their path stay.
Source: the RFC "Collated String Type".
"""
_BINARY_COLLATION = "UTF8_BINARY"

ColumnPath: TypeAlias = tuple[str, ...]
"""The names on the path to a column. The step into an array is `element`, into a map `key` or `value`."""


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without nested types or parameters. `name` is the protocol's name (`long`, `timestamp_ntz`, …).

    `collation` is the identifier of a string's collation, such as `spark.UTF8_LCASE`. None compares the UTF-8 bytes.
    """

    name: str
    collation: str | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A signed decimal with `precision` digits, `scale` of them after the decimal point; both at most 38."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class VariantType:
    """Semi-structured values. Not comparable, so without order, partitions and clustering. Source: "Variant Type"."""

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class GeospatialType:
    """Shapes in WKB: `kind` is geometry or geography. Not comparable.

    `crs` is the coordinate reference system. `algorithm` interpolates the edges of a geography; None for a geometry.
    Source: the type names of the Delta kernels, because PROTOCOL.md does not describe the feature.
    """

    kind: str
    crs: str = "OGC:CRS84"
    algorithm: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}({self.crs}{'' if self.algorithm is None else ', ' + self.algorithm})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of `element_type`."""

    element_type: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A collection of key-value pairs."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A top-level or nested column. `metadata` holds column mapping, invariants, generation expressions, comments."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY, hash=False)


@dataclass(frozen=True, slots=True)
class StructType:
    """The schema of a table or of a struct column."""

    fields: tuple[StructField, ...] = ()

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The field names, in order."""
        return tuple(f.name for f in self.fields)

    def get(self, name: str) -> StructField | None:
        """Return the field called `name`, or None.

        Prefers an exact match. Ignores case only if a single field matches.
        """
        for f in self.fields:
            if f.name == name:
                return f
        folded = [f for f in self.fields if f.name.lower() == name.lower()]
        return folded[0] if len(folded) == 1 else None

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"


DataType = PrimitiveType | DecimalType | VariantType | GeospatialType | ArrayType | MapType | StructType

STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VOID = PrimitiveType("void")
VARIANT = VariantType()


def parse_schema(schema_string: str) -> StructType:
    """Return the schema parsed from the `schemaString` of a metadata action.

    Raises InvalidSchema, with the path of the column, if the text is not JSON, is not a struct, or has an unknown type.
    """
    try:
        node = orjson.loads(schema_string)
    except orjson.JSONDecodeError as error:
        raise InvalidSchema(f"schemaString is not JSON: {error}; it starts with {schema_string[:80]!r}") from error
    parsed = _parse_type(node, "")
    if not isinstance(parsed, StructType):
        raise InvalidSchema(f"schemaString must describe a struct, found {parsed}")
    return parsed


def parse_type(name: str) -> DataType:
    """Return the type with the `name` in a schema that is not nested. Raises InvalidSchema."""
    return _parse_type_name(name, "")


def schema_to_json(schema: StructType) -> str:
    """Return the `schemaString` of `schema`: one line of JSON, with the key order of the reference implementation.

    Raises InvalidSchema if the schema is nested too deeply.
    """
    try:
        node = _type_to_node(schema)
        try:
            return orjson.dumps(node).decode()
        except TypeError:
            # orjson serializes at most 254 levels: 84 nested structs.
            return json.dumps(node, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply. Flatten its columns") from None


def _parse_type(node: Any, path: str) -> DataType:
    if isinstance(node, str):
        return _parse_type_name(node, path)
    if not isinstance(node, dict):
        raise InvalidSchema(f"column {path or '(root)'}: expected a type name or a type object, found {node!r}")
    kind = node.get("type")
    try:
        if kind == "struct":
            return StructType(tuple(_parse_field(f, path) for f in node["fields"]))
        if kind == "array":
            return ArrayType(_parse_type(node["elementType"], f"{path}.element"), bool(node.get("containsNull", True)))
        if kind == "map":
            return MapType(
                _parse_type(node["keyType"], f"{path}.key"),
                _parse_type(node["valueType"], f"{path}.value"),
                bool(node.get("valueContainsNull", True)),
            )
        if kind == str(VARIANT):
            return VARIANT
    except KeyError as error:
        raise InvalidSchema(f"column {path or '(root)'}: type {kind!r} lacks {error}") from error
    except TypeError as error:
        raise InvalidSchema(f"column {path or '(root)'}: type {kind!r} is malformed: {error}") from error
    raise InvalidSchema(f"column {path or '(root)'}: unknown type {kind!r}")


def _parse_type_name(name: str, path: str) -> DataType:
    plain = _ALIASES.get(name, name)
    if plain in PRIMITIVE_NAMES:
        return PrimitiveType(plain)
    if name == str(VARIANT):
        return VARIANT
    if name == "decimal":
        return DecimalType(10, 0)
    if match := _DECIMAL.match(name):
        precision, scale = int(match[1]), int(match[2])
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise InvalidSchema(f"column {path or '(root)'}: {name} is out of range (at most 38 digits)")
        return DecimalType(precision, scale)
    if _TEXT.match(name):
        return STRING
    if match := _GEOSPATIAL.match(name):
        return _geospatial(match[1], [part.strip() for part in (match[2] or "").split(",") if part.strip()], path)
    raise InvalidSchema(f"column {path or '(root)'}: unknown type {name!r}")


def _geospatial(kind: str, given: Sequence[str], path: str) -> GeospatialType:
    """Return the type `kind(crs, algorithm)`. Both parts have defaults; a single part with a colon is the system."""
    crs = next((part for part in given if ":" in part), GeospatialType(kind).crs)
    algorithms = [part for part in given if ":" not in part]
    is_known = all(part.lower() in _EDGE_ALGORITHMS for part in algorithms)
    if len(algorithms) > (kind == "geography") or len(given) - len(algorithms) > 1 or not is_known:
        raise InvalidSchema(f"column {path or '(root)'}: unknown type {kind}({', '.join(given)})")
    return GeospatialType(kind, crs, (algorithms or ["SPHERICAL"])[0] if kind == "geography" else None)


def _parse_field(node: Any, parent: str) -> StructField:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
        raise InvalidSchema(f"struct {parent or '(root)'}: a field must have a name and a type, found {node!r}")
    path = f"{parent}.{node['name']}" if parent else node["name"]
    metadata = node.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidSchema(f"column {path}: metadata must be a JSON object, found {metadata!r}")
    data_type = _parse_type(node["type"], path)
    if COLLATIONS in metadata:
        data_type, metadata = _with_collations(node["name"], data_type, metadata)
    return StructField(node["name"], data_type, bool(node.get("nullable", True)), metadata)


def _with_collations(name: str, data_type: DataType, metadata: Mapping[str, Any]) -> tuple[DataType, Mapping[str, Any]]:
    """Return the type of the column `name` with its collations, and the metadata without the entries in the type."""
    given = metadata[COLLATIONS]
    if not isinstance(given, Mapping):
        return data_type, metadata
    left = {path: found for path, found in given.items() if isinstance(found, str)}
    if len(left) < len(given):
        return data_type, metadata
    collated = _collated(data_type, name, left)
    others = {key: value for key, value in metadata.items() if key != COLLATIONS}
    return collated, {**others, COLLATIONS: left} if left else others


def _collated(data_type: DataType, path: str, left: dict[str, str]) -> DataType:
    """Return `data_type` with the collations of its strings, which are removed from `left`."""
    if isinstance(data_type, ArrayType):
        return replace(data_type, element_type=_collated(data_type.element_type, f"{path}.element", left))
    if isinstance(data_type, MapType):
        key, value = (
            _collated(part, f"{path}.{step}", left)
            for step, part in (("key", data_type.key_type), ("value", data_type.value_type))
        )
        return replace(data_type, key_type=key, value_type=value)
    if not is_string(data_type) or path not in left:
        return data_type
    identifier = left.pop(path)
    return STRING if identifier.rpartition(".")[2] == _BINARY_COLLATION else PrimitiveType("string", identifier)


def _collations_in(data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(data_type, ArrayType):
        yield from _collations_in(data_type.element_type, f"{path}.element")
    elif isinstance(data_type, MapType):
        yield from _collations_in(data_type.key_type, f"{path}.key")
        yield from _collations_in(data_type.value_type, f"{path}.value")
    elif isinstance(data_type, PrimitiveType) and data_type.collation is not None:
        yield path, data_type.collation


def _field_metadata(column: StructField) -> dict[str, Any]:
    collations = dict(_collations_in(column.type, column.name))
    if not collations:
        return dict(column.metadata)
    return {**column.metadata, COLLATIONS: {**column.metadata.get(COLLATIONS, {}), **collations}}


def _type_to_node(data_type: DataType) -> Any:
    if isinstance(data_type, StructType):
        return {
            "type": "struct",
            "fields": [
                {
                    "name": f.name,
                    "type": _type_to_node(f.type),
                    "nullable": f.nullable,
                    "metadata": _field_metadata(f),
                }
                for f in data_type
            ],
        }
    if isinstance(data_type, ArrayType):
        return {
            "type": "array",
            "elementType": _type_to_node(data_type.element_type),
            "containsNull": data_type.contains_null,
        }
    if isinstance(data_type, MapType):
        return {
            "type": "map",
            "keyType": _type_to_node(data_type.key_type),
            "valueType": _type_to_node(data_type.value_type),
            "valueContainsNull": data_type.value_contains_null,
        }
    return str(data_type)


def is_string(data_type: DataType | None) -> bool:
    """Return whether `data_type` is string, with or without a collation."""
    return isinstance(data_type, PrimitiveType) and data_type.name == "string"


def collation_of(data_type: DataType | None) -> str | None:
    """Return the identifier of the collation of a string, None for a string without one and for other types."""
    return data_type.collation if isinstance(data_type, PrimitiveType) else None


def walk_fields(data_type: DataType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, StructField]]:
    """Yield the fields inside `data_type` with their paths below `path`, in pre-order."""
    if isinstance(data_type, StructType):
        for column in data_type:
            inner = (*path, column.name)
            yield inner, column
            yield from walk_fields(column.type, inner)
    elif isinstance(data_type, ArrayType):
        yield from walk_fields(data_type.element_type, (*path, "element"))
    elif isinstance(data_type, MapType):
        yield from walk_fields(data_type.key_type, (*path, "key"))
        yield from walk_fields(data_type.value_type, (*path, "value"))


def rewrite_fields(schema: StructType, change: Callable[[ColumnPath, StructField], StructField]) -> StructType:
    """Return `schema` with each field replaced by `change(path, field)`.

    Pre-order: nested fields of the changed field are rewritten next.
    """
    return _rewrite_struct(schema, (), change)


def without_metadata(schema: StructType, drop: Callable[[str], bool]) -> StructType:
    """Return `schema` without the metadata of fields whose key satisfies `drop`, at every depth."""

    def without(_: ColumnPath, column: StructField) -> StructField:
        return replace(column, metadata={key: value for key, value in column.metadata.items() if not drop(key)})

    return rewrite_fields(schema, without)


def _rewrite_struct(
    struct: StructType, path: ColumnPath, change: Callable[[ColumnPath, StructField], StructField]
) -> StructType:
    fields = []
    for column in struct:
        changed = change((*path, column.name), column)
        fields.append(replace(changed, type=_rewrite_type(changed.type, (*path, column.name), change)))
    return StructType(tuple(fields))


def _rewrite_type(
    data_type: DataType, path: ColumnPath, change: Callable[[ColumnPath, StructField], StructField]
) -> DataType:
    if isinstance(data_type, StructType):
        return _rewrite_struct(data_type, path, change)
    if isinstance(data_type, ArrayType):
        return replace(data_type, element_type=_rewrite_type(data_type.element_type, (*path, "element"), change))
    if isinstance(data_type, MapType):
        return replace(
            data_type,
            key_type=_rewrite_type(data_type.key_type, (*path, "key"), change),
            value_type=_rewrite_type(data_type.value_type, (*path, "value"), change),
        )
    return data_type


def as_nullable(schema: StructType) -> StructType:
    """Return `schema` with all columns nullable at every depth, like a table created from a DataFrame."""
    return StructType(tuple(replace(f, nullable=True, type=nullable_type(f.type)) for f in schema))


def nullable_type(data_type: DataType) -> DataType:
    """Return `data_type` with all nested parts nullable, for comparisons without nullability."""
    if isinstance(data_type, StructType):
        return as_nullable(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(nullable_type(data_type.element_type))
    if isinstance(data_type, MapType):
        return MapType(nullable_type(data_type.key_type), nullable_type(data_type.value_type))
    return data_type
