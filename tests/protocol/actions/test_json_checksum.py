import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.json_checksum import canonicalize, checksum

VECTORS = json.loads((Path(__file__).parents[2] / "data/vectors/json_checksum.json").read_text())
SCALARS = st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]))
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abk+"= é', max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize("case", VECTORS["canonicalization"], ids=lambda case: case["json"][:40])
def test_canonical_form_and_digest_equal_the_reference(case: dict[str, str]) -> None:
    assert canonicalize(case["json"]) == case["canonical"]
    assert checksum(case["json"]) == case["md5"]
    assert checksum(case["json"].encode()) == case["md5"]


def test_the_sample_of_the_protocol_has_its_checksum() -> None:
    sample = (
        '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
        '{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
    )
    assert checksum(sample) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


@pytest.mark.parametrize("pair", VECTORS["same_checksum"])
def test_order_of_keys_space_and_the_old_checksum_do_not_matter(pair: list[str]) -> None:
    assert checksum(pair[0]) == checksum(pair[1])


@pytest.mark.parametrize("pair", VECTORS["different_checksum"])
def test_values_and_order_of_elements_matter(pair: list[str]) -> None:
    assert checksum(pair[0]) != checksum(pair[1])


def test_a_written_hint_carries_the_checksum_of_the_rest() -> None:
    complete = VECTORS["serialized"]["json"]
    assert checksum(complete) == json.loads(complete)["checksum"]
    assert checksum(VECTORS["serialized"]["json_without_checksum"]) == json.loads(complete)["checksum"]


def test_numbers_are_kept_as_written() -> None:
    assert canonicalize('{"a":1.50,"b":1E+3,"c":-0,"d":123456789012345678901234567890}') == (
        '"a"=1.50,"b"=1E+3,"c"=-0,"d"=123456789012345678901234567890'
    )


def test_only_a_top_level_checksum_is_left_out() -> None:
    assert canonicalize('{"a":{"checksum":"x"},"checksum":"y"}') == '"a"+"checksum"="x"'


@pytest.mark.parametrize("document", ['{"a":1,"a":1}', '{"b":{"a":1,"a":2}}', '{"checksum":"a","checksum":"b"}'])
def test_a_key_that_occurs_twice_is_refused(document: str | bytes) -> None:
    with pytest.raises(InvalidArgument, match="occurs twice"):
        canonicalize(document)


@pytest.mark.parametrize("document", ["", "{", b"\xff", '{"a":NaN}', '{"a":"\\ud800"}', "[" * 100_000])
def test_what_is_not_json_is_refused(document: str | bytes) -> None:
    with pytest.raises(InvalidArgument):
        checksum(document)


@given(DOCUMENTS)
def test_layout_and_escapes_of_the_text_do_not_change_the_checksum(document: object) -> None:
    plain = json.dumps(document)
    spaced = json.dumps(document, indent=3, ensure_ascii=False, sort_keys=True)
    assert checksum(plain) == checksum(spaced)
