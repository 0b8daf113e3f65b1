import json
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions import z85

VECTORS = json.loads((Path(__file__).parents[2] / "data/vectors/z85.json").read_text())


def test_the_alphabet_is_the_one_of_the_rfc() -> None:
    assert VECTORS["alphabet"] == z85.ALPHABET


@pytest.mark.parametrize("case", VECTORS["uuids"], ids=lambda case: case["uuid"])
def test_uuids_of_other_engines_encode_and_decode(case: dict[str, str]) -> None:
    value = uuid.UUID(case["uuid"])
    assert z85.encode_uuid(value) == case["z85"]
    assert z85.decode_uuid(case["z85"]) == value


@pytest.mark.parametrize("case", VECTORS["bytes"], ids=lambda case: case["z85"])
def test_byte_strings_encode_and_decode(case: dict[str, str]) -> None:
    data = bytes.fromhex(case["hex"])
    assert z85.encode(data) == case["z85"]
    assert z85.decode(case["z85"]) == data


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=lambda case: case["why"])
def test_texts_that_are_not_z85_are_refused(case: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        z85.decode(case["z85"])


def test_a_refused_character_is_named_with_its_position() -> None:
    with pytest.raises(InvalidArgument, match="'_' at 6"):
        z85.decode("00000a_bcd")


@pytest.mark.parametrize("text", ["%nSc1", "#####", "00000%nSc1"])
def test_a_group_beyond_32_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="exceeds 32 bits"):
        z85.decode(text)


@pytest.mark.parametrize("text", ["", "0" * 15, "0" * 25])
def test_a_uuid_of_another_length_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="20 characters"):
        z85.decode_uuid(text)


@given(st.binary(max_size=200))
def test_decoding_gives_the_bytes_back_filled_up_to_whole_groups(data: bytes) -> None:
    assert z85.decode(z85.encode(data)) == data + bytes(-len(data) % 4)


@given(st.uuids())
def test_every_uuid_has_twenty_characters_and_comes_back(value: uuid.UUID) -> None:
    text = z85.encode_uuid(value)
    assert len(text) == 20
    assert z85.decode_uuid(text) == value
