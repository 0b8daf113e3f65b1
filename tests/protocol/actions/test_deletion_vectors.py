import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from slackwater.errors import CorruptDeletionVector, InvalidArgument
from slackwater.protocol.actions import z85
from slackwater.protocol.actions.deletion_vectors import (
    NATIVE_MAGIC,
    DeletionVectorDescriptor,
    parse_bitmap,
    parse_file_slice,
    parse_inline,
    serialize_bitmap,
    to_words,
    unique_id_of,
    write_file,
)
from tests.examples import examples

VECTORS = json.loads((Path(__file__).parents[2] / "data/vectors/deletion_vectors.json").read_text())
SAMPLES = VECTORS["samples_in_tables"]
SPEC_ROWS = [3, 4, 7, 11, 18, 29]
SPEC_INLINE = DeletionVectorDescriptor("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None, 40, 6)
ROWS = st.sets(
    st.integers(0, 200) | st.integers(60_000, 140_000) | st.integers(2**32 - 3, 2**32 + 70_000) | st.integers(0, 2**62)
)
SHAPES: dict[str, Sequence[int]] = {
    "empty": [],
    "array container": [0, 5, 65_535],
    "bitmap container": range(0, 65_536, 3),
    "run container": range(100, 60_000),
    "all container kinds": [*range(0, 65_536, 3), *range(70_000, 130_000), 200_000, 200_002],
    "second bucket": [1, 2**32 + 1, 2**32 + 4, 2**40],
    "last row index": [2**63 - 1],
}


def descriptor_of(
    bitmap: BitMap64, storage_type: str = "u", text: str = "ab^-aqEH.-t@S}K{vb[*k^", offset: int = 1
) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(storage_type, text, offset, len(serialize_bitmap(bitmap)), len(bitmap))


def inline_of(data: bytes, cardinality: int) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("i", z85.encode(data), None, len(data), cardinality)


def rows_of_words(bitmap: BitMap64, chunk_rows: int) -> list[int]:
    rows: list[int] = []
    for chunk, words in to_words(bitmap, chunk_rows):
        assert words.dtype == np.int64
        assert words.shape == (chunk_rows // 64,)
        bits = np.unpackbits(words.astype("<i8").view(np.uint8), bitorder="little")
        assert bits.any()
        rows += [chunk * chunk_rows + int(r) for r in np.flatnonzero(bits)]
    return rows


class TestDescriptor:
    @pytest.mark.parametrize("case", [c for c in VECTORS["descriptors"] if c["storageType"] == "u"])
    def test_a_relative_vector_has_a_path_under_the_table_root(self, case: dict[str, Any]) -> None:
        assert DeletionVectorDescriptor.from_json(case).relative_path == case["relative_path"]

    @pytest.mark.parametrize("case", VECTORS["uuid_paths"])
    def test_prefix_and_uuid_make_the_path(self, case: dict[str, Any]) -> None:
        descriptor = DeletionVectorDescriptor("u", case["encoded"], 1, 1, 1)
        assert descriptor.relative_path == case["relative_path"]

    def test_a_prefix_with_a_space_stays_as_it_is(self) -> None:
        text = "dv dir" + VECTORS["uuid_paths"][0]["encoded"][-20:]
        path = DeletionVectorDescriptor("u", text, 1, 1, 1).relative_path
        assert path == "dv dir/deletion_vector_550e8400-e29b-41d4-a716-446655440000.bin"

    @pytest.mark.parametrize("storage_type", ["p", "i"])
    def test_other_storage_types_have_no_relative_path(self, storage_type: str) -> None:
        assert DeletionVectorDescriptor(storage_type, "s3://t/x.bin", None, 1, 1).relative_path is None

    def test_the_unique_id_has_the_offset_where_there_is_one(self) -> None:
        assert unique_id_of("i", "0rJua", None) == "i0rJua"
        assert DeletionVectorDescriptor("u", "abc", 0, 1, 1).unique_id == "uabc@0"

    @pytest.mark.parametrize("case", VECTORS["descriptors"] + [s["descriptor"] for s in SAMPLES])
    def test_json_round_trips(self, case: dict[str, Any]) -> None:
        descriptor = DeletionVectorDescriptor.from_json(case)
        assert DeletionVectorDescriptor.from_json(descriptor.to_json()) == descriptor
        assert ("offset" in descriptor.to_json()) == (case.get("offset") is not None)

    @pytest.mark.parametrize("case", [c for c in VECTORS["invalid"] if "bytes_hex" not in c], ids=lambda c: c["why"])
    def test_what_other_engines_refuse_is_refused(self, case: dict[str, Any]) -> None:
        node = {"pathOrInlineDv": "0rJua", "sizeInBytes": 4, "cardinality": 1} | case
        with pytest.raises(CorruptDeletionVector):
            _ = DeletionVectorDescriptor.from_json(node).relative_path

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("sizeInBytes", None),
            ("sizeInBytes", -1),
            ("cardinality", "6"),
            ("cardinality", True),
            ("offset", 1.0),
            ("pathOrInlineDv", 3),
        ],
    )
    def test_a_field_of_the_wrong_type_is_named(self, field: str, value: object) -> None:
        node = VECTORS["descriptors"][0] | {field: value}
        with pytest.raises(CorruptDeletionVector, match=field):
            DeletionVectorDescriptor.from_json(node)


class TestBitmap:
    @pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
    def test_every_container_kind_round_trips(self, rows: Sequence[int]) -> None:
        bitmap = BitMap64(rows)
        assert parse_bitmap(serialize_bitmap(bitmap)) == bitmap

    @given(ROWS)
    def test_any_rows_round_trip(self, rows: set[int]) -> None:
        assert list(parse_bitmap(serialize_bitmap(BitMap64(rows)))) == sorted(rows)

    @pytest.mark.parametrize("rows", VECTORS["roaring_values"])
    def test_rows_that_other_engines_try_round_trip(self, rows: list[int]) -> None:
        assert list(parse_bitmap(serialize_bitmap(BitMap64(rows)))) == rows

    def test_the_portable_bytes_are_those_of_other_engines(self) -> None:
        case = next(c for c in VECTORS["descriptors"] if c.get("positions") == SPEC_ROWS)
        assert serialize_bitmap(BitMap64(SPEC_ROWS)).hex() == case["bytes_hex"]

    def test_serializing_leaves_the_bitmap_as_it_was(self) -> None:
        bitmap = BitMap64(range(1000))
        serialize_bitmap(bitmap)
        assert list(bitmap) == list(range(1000))

    @pytest.mark.parametrize("order", ["little", "big"])
    def test_the_native_layout_is_read_in_both_byte_orders(self, order: Literal["little", "big"]) -> None:
        buckets = [BitMap([1, 5]).serialize(), BitMap().serialize(), BitMap(range(9000)).serialize()]
        data = NATIVE_MAGIC.to_bytes(4, order) + len(buckets).to_bytes(4, order)
        data += b"".join(len(bucket).to_bytes(4, order) + bucket for bucket in buckets)
        assert list(parse_bitmap(data)) == [1, 5, *range(2**33, 2**33 + 9000)]
        for end in (5, 11, 30, len(data) - 1):
            with pytest.raises(CorruptDeletionVector):
                parse_bitmap(data[:end])

    def test_a_native_magic_number_before_rubbish_is_refused(self) -> None:
        (case,) = [c for c in VECTORS["invalid"] if "bytes_hex" in c]
        with pytest.raises(CorruptDeletionVector):
            parse_bitmap(bytes.fromhex(case["bytes_hex"]))

    @pytest.mark.parametrize("data", [b"", b"\x01\x02\x03\x04", b"\xd2\xd3\x39\x64" + bytes(8)])
    def test_another_magic_number_is_refused(self, data: bytes) -> None:
        with pytest.raises(CorruptDeletionVector, match="magic number 1681511377"):
            parse_bitmap(data)

    def test_a_truncated_bitmap_is_refused_wherever_it_ends(self) -> None:
        data = serialize_bitmap(BitMap64(SHAPES["all container kinds"]))
        for end in (4, 8, 11, 12, 20, 100, len(data) - 1):
            with pytest.raises(CorruptDeletionVector, match="here"):
                parse_bitmap(data[:end], "here")

    def test_row_indexes_beyond_63_bits_are_refused_both_ways(self) -> None:
        bitmap = BitMap64([2**63])
        with pytest.raises(InvalidArgument):
            serialize_bitmap(bitmap)
        with pytest.raises(CorruptDeletionVector, match="63 bits"):
            parse_bitmap(bytes.fromhex("d1d33964") + bitmap.serialize())

    @settings(max_examples=examples(200))
    @given(st.binary(max_size=40), st.integers(0, 200))
    def test_damaged_bytes_never_raise_anything_else(self, junk: bytes, place: int) -> None:
        data = serialize_bitmap(BitMap64(SHAPES["all container kinds"]))
        damaged = data[: 4 + place] + junk + data[4 + place + len(junk) :]
        try:
            rows = parse_bitmap(damaged)
        except CorruptDeletionVector:
            return
        # Damage that still is a bitmap must be the one that is there, to the last row.
        assert list(parse_bitmap(serialize_bitmap(rows))) == list(rows)


class TestInline:
    def test_the_example_of_the_protocol_holds_its_rows(self) -> None:
        assert list(parse_inline(SPEC_INLINE)) == SPEC_ROWS

    @pytest.mark.parametrize("case", [s for s in SAMPLES if s["descriptor"]["storageType"] == "i"])
    def test_inline_vectors_of_tables_hold_their_rows(self, case: dict[str, Any]) -> None:
        assert list(parse_inline(DeletionVectorDescriptor.from_json(case["descriptor"]))) == case["positions"]

    def test_a_shortened_last_group_is_read(self) -> None:
        text = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"
        assert list(parse_inline(DeletionVectorDescriptor("i", text, None, 34, 1))) == [3]

    @pytest.mark.parametrize("text", ["^Bg9^0rr910000000000iXQKl0rr91000005c8Xg###93", "#Bg9^" + "0" * 40])
    def test_a_shortened_group_that_does_not_fit_is_refused(self, text: str) -> None:
        with pytest.raises(CorruptDeletionVector):
            parse_inline(DeletionVectorDescriptor("i", text, None, 34, 1))

    @given(ROWS)
    def test_any_rows_round_trip(self, rows: set[int]) -> None:
        data = serialize_bitmap(BitMap64(rows))
        assert set(parse_inline(inline_of(data, len(rows)))) == rows

    def test_bytes_beyond_the_size_do_not_count(self) -> None:
        data = serialize_bitmap(BitMap64([3]))
        assert len(data) % 4
        assert list(parse_inline(inline_of(data, 1))) == [3]

    @pytest.mark.parametrize("size", [36, 45, 0])
    def test_a_size_that_the_text_does_not_have_is_refused(self, size: int) -> None:
        wrong = DeletionVectorDescriptor("i", SPEC_INLINE.path_or_inline_dv, None, size, 6)
        with pytest.raises(CorruptDeletionVector, match=f"expected {size} bytes"):
            parse_inline(wrong)

    def test_a_wrong_cardinality_is_refused(self) -> None:
        wrong = DeletionVectorDescriptor("i", SPEC_INLINE.path_or_inline_dv, None, 40, 7)
        with pytest.raises(CorruptDeletionVector, match="expected 7 deleted rows, found 6"):
            parse_inline(wrong)

    def test_a_vector_in_a_file_is_not_inline(self) -> None:
        with pytest.raises(InvalidArgument):
            parse_inline(descriptor_of(BitMap64([1])))


class TestFile:
    @pytest.mark.parametrize("case", [s for s in SAMPLES if "file_hex" in s], ids=lambda s: s["relative_path"][-16:])
    def test_files_of_other_engines_hold_their_rows(self, case: dict[str, Any]) -> None:
        descriptor = DeletionVectorDescriptor.from_json(case["descriptor"])
        content = bytes.fromhex(case["file_hex"])
        assert descriptor.relative_path == case["relative_path"]
        assert list(parse_file_slice(descriptor, content[descriptor.offset :], "f")) == case["positions"]

    @given(st.lists(ROWS, max_size=4))
    def test_every_vector_of_a_written_file_is_found_at_its_place(self, vectors: list[set[int]]) -> None:
        bitmaps = [BitMap64(rows) for rows in vectors]
        content, places = write_file([serialize_bitmap(bitmap) for bitmap in bitmaps])
        assert content[0] == 1
        for bitmap, (offset, size) in zip(bitmaps, places, strict=True):
            descriptor = descriptor_of(bitmap, offset=offset)
            assert descriptor.size_in_bytes == size
            assert parse_file_slice(descriptor, content[offset:], "f") == bitmap
            assert parse_file_slice(descriptor, content[offset : offset + size + 8], "f") == bitmap

    def test_a_file_is_written_byte_for_byte_as_the_reference_does(self) -> None:
        case = next(s for s in SAMPLES if "file_hex" in s)
        content, places = write_file([serialize_bitmap(BitMap64(case["positions"]))])
        assert content.hex() == case["file_hex"]
        assert places == [(case["descriptor"]["offset"], case["descriptor"]["sizeInBytes"])]

    @pytest.mark.parametrize(
        ("position", "message"), [(1, "bytes"), (10, "CRC-32"), (-1, "CRC-32")], ids=["size", "bitmap", "checksum"]
    )
    def test_a_flipped_byte_is_found_and_the_place_is_named(self, position: int, message: str) -> None:
        bitmap = BitMap64(SPEC_ROWS)
        damaged = bytearray(write_file([serialize_bitmap(bitmap)])[0][1:])
        damaged[position] ^= 0xFF
        with pytest.raises(CorruptDeletionVector, match=rf"dv\.bin at 1: .*{message}"):
            parse_file_slice(descriptor_of(bitmap), bytes(damaged), "dv.bin at 1")

    def test_a_short_file_a_wrong_magic_number_and_a_wrong_cardinality_are_refused(self) -> None:
        data = serialize_bitmap(BitMap64(SPEC_ROWS))
        content = write_file([data])[0][1:]
        descriptor = descriptor_of(BitMap64(SPEC_ROWS))
        with pytest.raises(CorruptDeletionVector, match="expected 52 bytes, found 51"):
            parse_file_slice(descriptor, content[:-1], "f")
        with pytest.raises(CorruptDeletionVector, match="f: expected 5 deleted rows, found 6"):
            parse_file_slice(DeletionVectorDescriptor("u", "", 1, len(data), 5), content, "f")
        other = b"\0\0\0\0" + data[4:]
        framed = len(other).to_bytes(4, "big") + other + zlib.crc32(other).to_bytes(4, "big")
        with pytest.raises(CorruptDeletionVector, match="f: expected the magic number"):
            parse_file_slice(descriptor, framed, "f")


class TestWords:
    @given(st.sets(st.integers(0, 300_000) | st.integers(2**32 - 5, 2**32 + 5) | st.integers(0, 2**62), max_size=60))
    def test_the_set_bits_are_the_deleted_rows(self, rows: set[int]) -> None:
        assert rows_of_words(BitMap64(rows), 65_536) == sorted(rows)
        assert rows_of_words(BitMap64(rows), 192) == sorted(rows)

    @pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
    def test_every_container_kind_gives_its_rows(self, rows: Sequence[int]) -> None:
        assert rows_of_words(BitMap64(rows), 65_536) == list(rows)

    def test_chunks_without_deleted_rows_are_left_out(self) -> None:
        assert [chunk for chunk, _ in to_words(BitMap64([1, 65_535, 65_536 * 7]))] == [0, 7]
        assert list(to_words(BitMap64())) == []

    def test_the_highest_row_of_a_word_is_its_sign_bit(self) -> None:
        ((chunk, words),) = to_words(BitMap64([63, 64]))
        assert (chunk, int(words[0]), int(words[1])) == (0, -(2**63), 1)

    @pytest.mark.parametrize("chunk_rows", [0, -64, 100])
    def test_a_chunk_that_is_no_multiple_of_a_word_is_refused(self, chunk_rows: int) -> None:
        with pytest.raises(InvalidArgument, match="multiple of 64"):
            to_words(BitMap64([1]), chunk_rows)
