"""The action `transactionGroup`: its JSON form, and the forms that are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptLog
from slackwater.protocol.actions.transaction_groups import Participant, TransactionGroup

# The example of the RFC.
EXAMPLE: dict[str, Any] = {
    "transactionGroup": {
        "transactionId": "b6c03b3a-bca9-4d87-9d3b-dd9b0d95ee47",
        "participants": [
            {"tableId": "cat://sales/fact_orders", "proposedVersion": 512},
            {"tableId": "cat://sales/dim_customer", "proposedVersion": 77},
        ],
        "coordinatingCatalog": "unity://prod",
    }
}
NODE = EXAMPLE["transactionGroup"]
GROUPS = st.builds(
    TransactionGroup,
    st.text(max_size=8),
    st.lists(
        st.builds(Participant, st.text(max_size=8), st.integers(0, 2**62)),
        min_size=2,
        max_size=4,
        unique_by=lambda part: part.table_id,
    ).map(tuple),
    st.text(max_size=8),
)


def test_the_example_of_the_proposal_is_read_and_written() -> None:
    group = TransactionGroup.from_json(NODE, "here")
    assert group.participants == (
        Participant("cat://sales/fact_orders", 512),
        Participant("cat://sales/dim_customer", 77),
    )
    assert (group.transaction_id, group.catalog) == ("b6c03b3a-bca9-4d87-9d3b-dd9b0d95ee47", "unity://prod")
    # The order of the fields and of the participants stays, so that the files of a group have equal lines.
    assert json.dumps(group.to_json()) == json.dumps(EXAMPLE)


@given(GROUPS)
def test_a_group_comes_back_from_its_json(group: TransactionGroup) -> None:
    node = json.loads(json.dumps(group.to_json()))
    assert TransactionGroup.from_json(node["transactionGroup"], "here") == group
    assert TransactionGroup.among([{"commitInfo": {}}, node], "here") == group


def test_a_commit_without_the_action_has_no_group() -> None:
    assert TransactionGroup.among([{"commitInfo": {}}, {"add": {}}], "here") is None


def test_a_group_of_versions_is_sorted_and_moves_to_other_versions() -> None:
    group = TransactionGroup.of("t", {"b": 2, "a": 1}, "c")
    assert group.participants == (Participant("a", 1), Participant("b", 2))
    assert group.at({"a": 5, "b": 7}).versions == {"a": 5, "b": 7}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"transactionId": None}, "transactionId"),
        ({"coordinatingCatalog": None}, "coordinatingCatalog"),
        ({"coordinatingCatalog": 1}, "coordinatingCatalog"),
        ({"participants": None}, "participants"),
        ({"participants": {}}, "participants"),
        ({"participants": []}, "two or more participants, found 0"),
        ({"participants": NODE["participants"][:1]}, "two or more participants, found 1"),
        ({"participants": NODE["participants"][:1] * 2}, "names a table twice"),
        ({"participants": ["a", "b"]}, "tableId"),
        ({"participants": [{"tableId": "a"}, {"tableId": "b"}]}, "proposedVersion"),
        ({"participants": [{"tableId": n, "proposedVersion": "1"} for n in "ab"]}, "proposedVersion"),
        ({"participants": [{"tableId": n, "proposedVersion": True} for n in "ab"]}, "proposedVersion"),
        ({"participants": [{"tableId": n, "proposedVersion": -1} for n in "ab"]}, "negative proposedVersion"),
    ],
)
def test_a_malformed_group_is_rejected_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptLog, match=rf"^here: .*{message}"):
        TransactionGroup.from_json({**NODE, **changed}, "here")
