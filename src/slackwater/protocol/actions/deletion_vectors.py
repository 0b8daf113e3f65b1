"""Deletion vectors: descriptor, bitmap and file format.

Source: delta-protocol.md "Deletion Vectors", "Deletion Vector Format", "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from slackwater.errors import CorruptDeletionVector, InvalidArgument
from slackwater.protocol.actions import z85

ON_DISK_RELATIVE = "u"
ON_DISK_ABSOLUTE = "p"
INLINE = "i"

FILE_VERSION = 1
PORTABLE_MAGIC = 1681511377
# The predecessor of the portable layout. The protocol's inline example uses it, in big endian.
NATIVE_MAGIC = 1681511376
CHUNK_ROWS = 65_536

_WORD_ROWS = 64


@dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor:
    """The location of a deletion vector, and the number of deleted rows.

    `offset` is in bytes from the start of the file, None if inline. `size_in_bytes` is the size of the serialized
    bitmap without framing or Base85. `cardinality` is in rows.
    Source: delta-protocol.md "Deletion Vector Descriptor Schema".
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """The unique id among the deletion vectors of one data file: see `unique_id_of`."""
        return unique_id_of(self.storage_type, self.path_or_inline_dv, self.offset)

    @property
    def relative_path(self) -> str | None:
        """The file's path relative to the table root, not percent-encoded; None unless the storage type is `u`.

        Raises CorruptDeletionVector if the text does not end in a UUID. Source: "Derived Fields".
        """
        if self.storage_type != ON_DISK_RELATIVE:
            return None
        prefix, encoded = self.path_or_inline_dv[:-20], self.path_or_inline_dv[-20:]
        try:
            name = f"deletion_vector_{z85.decode_uuid(encoded)}.bin"
        except InvalidArgument as error:
            raise CorruptDeletionVector(
                f"pathOrInlineDv {self.path_or_inline_dv!r} must end in a Z85 UUID of 20 characters: {error}"
            ) from error
        return f"{prefix}/{name}" if prefix else name

    @staticmethod
    def from_json(node: Mapping[str, Any]) -> DeletionVectorDescriptor:
        """Return the descriptor in the `deletionVector` of a file action.

        Raises CorruptDeletionVector, with the field, if a field is missing or of the wrong type. Also raised for an
        unknown storage type, and for an inline vector with an offset.
        """
        storage_type = _field(node, "storageType", str)
        if storage_type not in (ON_DISK_RELATIVE, ON_DISK_ABSOLUTE, INLINE):
            raise CorruptDeletionVector(f"storageType must be 'u', 'i' or 'p', found {storage_type!r} in {dict(node)}")
        offset = None if node.get("offset") is None else _field(node, "offset", int)
        if storage_type == INLINE and offset is not None:
            raise CorruptDeletionVector(f"an inline deletion vector must have no offset, found {offset}")
        return DeletionVectorDescriptor(
            storage_type,
            _field(node, "pathOrInlineDv", str),
            offset,
            _field(node, "sizeInBytes", int),
            _field(node, "cardinality", int),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for the `deletionVector` of a file action, without `offset` if it is None."""
        node: dict[str, Any] = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline_dv}
        if self.offset is not None:
            node["offset"] = self.offset
        return node | {"sizeInBytes": self.size_in_bytes, "cardinality": self.cardinality}


def unique_id_of(storage_type: str, path_or_inline_dv: str, offset: int | None) -> str:
    """Return `<storageType><pathOrInlineDv>`, followed by `@<offset>` if not None. Source: "Derived Fields"."""
    plain = storage_type + path_or_inline_dv
    return plain if offset is None else f"{plain}@{offset}"


def parse_bitmap(data: bytes, where: str = "deletion vector") -> BitMap64:
    """Return the deleted row indexes of a serialized deletion vector.

    Reads the portable layout, and the older native layout in both byte orders. Raises CorruptDeletionVector, with
    `where`, for any other magic number, a malformed bitmap, or an index of more than 63 bits.
    Source: delta-protocol.md "Deletion Vector Format".
    """
    little, big = int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")
    if little == PORTABLE_MAGIC:
        bitmap = _deserialize(data[4:], where)
    elif little == NATIVE_MAGIC:
        bitmap = _deserialize(_native_to_portable(data, "<u4", where), where)
    elif big == NATIVE_MAGIC:
        bitmap = _deserialize(_native_to_portable(data, ">u4", where), where)
    else:
        raise CorruptDeletionVector(f"{where}: expected the magic number {PORTABLE_MAGIC}, found {little}")
    if bitmap and bitmap.max() >> 63:
        raise CorruptDeletionVector(f"{where}: row indexes must fit 63 bits, found {bitmap.max()}")
    return bitmap


def serialize_bitmap(bitmap: BitMap64) -> bytes:
    """Return the portable serialized form of `bitmap`, including the magic number; runs are compressed.

    Raises InvalidArgument for a row index of more than 63 bits. Source: delta-protocol.md "Deletion Vector Format".
    """
    if bitmap and bitmap.max() >> 63:
        raise InvalidArgument(f"row indexes must fit 63 bits, found {bitmap.max()}")
    compact = BitMap64(bitmap)
    compact.run_optimize()
    serialized: bytes = compact.serialize()
    return PORTABLE_MAGIC.to_bytes(4, "little") + serialized


def parse_inline(descriptor: DeletionVectorDescriptor) -> BitMap64:
    """Return the deleted row indexes of an inline deletion vector, stored in the log itself.

    Raises CorruptDeletionVector if text, size, bitmap or cardinality do not agree, InvalidArgument if the descriptor is
    not inline.
    """
    if descriptor.storage_type != INLINE:
        raise InvalidArgument(f"expected an inline deletion vector, found storage type {descriptor.storage_type!r}")
    text = descriptor.path_or_inline_dv
    where = f"inline deletion vector {text if len(text) <= 40 else text[:40] + '…'!r}"
    try:
        data = _decode_inline(text, descriptor.size_in_bytes)
    except InvalidArgument as error:
        raise CorruptDeletionVector(f"{where}: {error}") from error
    if data is None:
        found = len(text) // 5 * 4
        raise CorruptDeletionVector(
            f"{where}: expected {descriptor.size_in_bytes} bytes, found text for {found}",
            error_class="DELTA_DELETION_VECTOR_SIZE_MISMATCH",
        )
    return _with_cardinality(parse_bitmap(data, where), descriptor, where)


def parse_file_slice(descriptor: DeletionVectorDescriptor, file_bytes_at_offset: bytes, where: str) -> BitMap64:
    """Return the deleted row indexes of a vector in a file. The bytes begin at the descriptor's offset.

    Needs `size_in_bytes` + 8 bytes; more may follow. Verifies size, CRC-32, magic number and cardinality. Raises
    CorruptDeletionVector, with `where` (file and offset) and the expected and the found value.
    Source: delta-protocol.md "Deletion Vector File Storage Format".
    """
    size = descriptor.size_in_bytes
    if len(file_bytes_at_offset) < size + 8:
        raise CorruptDeletionVector(
            f"{where}: expected {size + 8} bytes, found {len(file_bytes_at_offset)}",
            error_class="DELTA_DELETION_VECTOR_SIZE_MISMATCH",
        )
    found_size = int.from_bytes(file_bytes_at_offset[:4], "big")
    if found_size != size:
        raise CorruptDeletionVector(
            f"{where}: the log records {size} bytes, the file records {found_size}",
            error_class="DELTA_DELETION_VECTOR_SIZE_MISMATCH",
        )
    data = file_bytes_at_offset[4 : 4 + size]
    expected_crc = int.from_bytes(file_bytes_at_offset[4 + size : 8 + size], "big")
    found_crc = zlib.crc32(data)
    if found_crc != expected_crc:
        raise CorruptDeletionVector(
            f"{where}: expected CRC-32 {expected_crc:#010x}, found {found_crc:#010x}",
            error_class="DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH",
        )
    return _with_cardinality(parse_bitmap(data, where), descriptor, where)


def write_file(bitmaps: Sequence[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the content of a file with these serialized bitmaps, and `(offset, size_in_bytes)` of each, in bytes.

    Source: delta-protocol.md "Deletion Vector File Storage Format".
    """
    content = bytearray([FILE_VERSION])
    places = []
    for data in bitmaps:
        places.append((len(content), len(data)))
        content += len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    return bytes(content), places


def to_words(bitmap: BitMap64, chunk_rows: int = CHUNK_ROWS) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Return an iterator over the chunks with deleted rows: chunk number and bit words, in ascending order.

    Row r is deleted if bit `r % 64` of word `(r % chunk_rows) // 64` of chunk `r // chunk_rows` is set. Each array has
    `chunk_rows // 64` words. Memory O(deleted rows). Raises InvalidArgument if `chunk_rows` is not a positive multiple
    of 64.
    """
    if chunk_rows <= 0 or chunk_rows % _WORD_ROWS:
        raise InvalidArgument(f"chunk_rows must be a positive multiple of {_WORD_ROWS}, found {chunk_rows}")
    return _chunks_of_words(bitmap, chunk_rows // _WORD_ROWS)


def _chunks_of_words(bitmap: BitMap64, chunk_words: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    if not bitmap:
        return
    rows = np.frombuffer(bitmap.to_array(), dtype=np.uint64)
    word_numbers = rows >> np.uint64(6)
    bits = np.uint64(1) << (rows & np.uint64(63))
    starts = starts_of_runs(word_numbers)
    words = np.bitwise_or.reduceat(bits, starts).view(np.int64)
    chunks, places = np.divmod(word_numbers[starts].astype(np.int64), chunk_words)
    bounds = [*starts_of_runs(chunks).tolist(), len(chunks)]
    for first, end in pairwise(bounds):
        dense = np.zeros(chunk_words, dtype=np.int64)
        dense[places[first:end]] = words[first:end]
        yield int(chunks[first]), dense


def starts_of_runs(ascending: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the position of the first of each run of equal values. `ascending` has at least one value."""
    return np.concatenate(([0], np.flatnonzero(ascending[1:] != ascending[:-1]) + 1))


def _field(node: Mapping[str, Any], name: str, kind: type) -> Any:
    value = node.get(name)
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise CorruptDeletionVector(f"{name} must be a non-negative {kind.__name__}, found {value!r} in {dict(node)}")
    return value


def _decode_inline(text: str, size: int) -> bytes | None:
    """Return exactly `size` bytes of `text`, or None if its length does not fit.

    Some writers do not pad the last bytes with zeros. They put '#' before their shortened last group. No valid Z85
    group begins with '#', because its value would exceed 32 bits.
    """
    if len(text) != -(-size // 4) * 5:
        return None
    tail = text[-5:]
    if not tail.startswith("#"):
        return z85.decode(text)[:size]
    tail_bytes, fill = size % 4, len(tail) - len(tail.lstrip("#"))
    if tail_bytes + fill != 4:
        raise InvalidArgument(f"last group {tail!r} does not contain {tail_bytes} bytes")
    return z85.decode(text[:-5]) + z85.decode("0" * fill + tail[fill:])[fill:]


def _deserialize(portable: bytes, where: str) -> BitMap64:
    if len(portable) < 8:
        raise CorruptDeletionVector(f"{where}: expected at least 8 bytes after the magic number, found {len(portable)}")
    try:
        return BitMap64.deserialize(portable)
    except ValueError as error:
        raise CorruptDeletionVector(f"{where}: malformed roaring bitmap: {error}") from error


def _native_to_portable(data: bytes, word: str, where: str) -> bytes:
    """Convert a native bitmap to the portable layout, with an explicit key for each bucket.

    The native layout is the bucket count, then size and content of bucket 0, 1, ….
    """

    def number_at(position: int) -> int:
        if position + 4 > len(data):
            raise CorruptDeletionVector(f"{where}: expected more than the {len(data)} bytes found")
        return int(np.frombuffer(data, dtype=word, count=1, offset=position)[0])

    bucket_count, position = number_at(4), 8
    portable = bytearray(bucket_count.to_bytes(8, "little"))
    for key in range(bucket_count):
        size = number_at(position)
        portable += key.to_bytes(4, "little") + data[position + 4 : position + 4 + size]
        position += 4 + size
    if position > len(data):
        raise CorruptDeletionVector(f"{where}: expected {position} bytes, found {len(data)}")
    return bytes(portable)


def _with_cardinality(bitmap: BitMap64, descriptor: DeletionVectorDescriptor, where: str) -> BitMap64:
    if len(bitmap) != descriptor.cardinality:
        raise CorruptDeletionVector(
            f"{where}: expected {descriptor.cardinality} deleted rows, found {len(bitmap)}",
            error_class="DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH",
        )
    return bitmap
