"""Type check: rejects column types unsupported by Spark's Parquet reader, by column name, before a read.

Source: delta-protocol.md "Primitive Types" (void); the type widening extension of the protocol.
"""

from __future__ import annotations

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.schema.schema import VOID, ArrayType, DataType, DecimalType, MapType, StructField, StructType
from slackwater.protocol.schema.type_widening import TYPE_CHANGES

# Digits before the point required by Spark to read a Parquet integer of 32 or 64 bits as a decimal.
_INT32_DIGITS, _INT64_DIGITS = 10, 20


def validate_types(schema: StructType, where: str) -> None:
    """Check whether Spark can read the columns of `schema` from every file of the table. `where` is for the message.

    Raises UnsupportedFeature for a void column inside another column. Raises it also for a column widened from an
    integer to a decimal too small for Spark's reader. The message names the column.
    """
    for column in schema:
        _validate(column, column.name, where, top_level=True)


def _validate(column: StructField, path: str, where: str, top_level: bool) -> None:
    if column.type == VOID and not top_level:
        raise UnsupportedFeature(
            f"{where}: column {path} is of type void inside another column. Slackwater cannot read it"
        )
    for change in column.metadata.get(TYPE_CHANGES) or ():
        before, after = str(change.get("fromType")), column.type
        digits = _INT64_DIGITS if before == "long" else _INT32_DIGITS
        integer = before in ("byte", "short", "integer", "long")
        if integer and isinstance(after, DecimalType) and after.precision - after.scale < digits:
            raise UnsupportedFeature(
                f"{where}: column {path} was widened from {before} to {after}. Spark reads files written before that "
                f"only into decimals with {digits} digits before the point"
            )
    _validate_inside(column.type, path, where)


def _validate_inside(data_type: DataType, path: str, where: str) -> None:
    if isinstance(data_type, StructType):
        for column in data_type:
            _validate(column, f"{path}.{column.name}", where, top_level=False)
    elif isinstance(data_type, ArrayType):
        _validate_element(data_type.element_type, f"{path}.element", where)
    elif isinstance(data_type, MapType):
        _validate_element(data_type.key_type, f"{path}.key", where)
        _validate_element(data_type.value_type, f"{path}.value", where)


def _validate_element(data_type: DataType, path: str, where: str) -> None:
    _validate(StructField(path, data_type), path, where, top_level=False)
