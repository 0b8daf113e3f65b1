"""What a table's metadata says of its commit owner, which everybody who reads the table sees."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.managed_commits import own_conf, with_owner
from slackwater.protocol.features.table_configuration import TableConfiguration

PLAIN = {"ownerId": "o-1", "tableId": "t-1"}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://user:word@owner.example:8443",
        "https://user@owner.example",
        "https://:word@owner.example",
        "user:word@owner.example:8443",
        "https://owner.example/?token=abc",
        "https://owner.example/lake?sig=abc&x=1",
        "https://owner.example/#abc",
        "https://owner.example?",
        "postgresql://owner.example/db?password=abc",
        "https://[owner.example/?token=abc",
    ],
)
def test_an_endpoint_that_may_hold_a_secret_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidArgument, match="must not contain a secret, but 'endpoint' looks like one") as raised:
        own_conf("o-1", "t-1", endpoint, "flights")
    assert "abc" not in str(raised.value)
    assert "word" not in str(raised.value).replace("password", "")
    with pytest.raises(InvalidArgument, match="must not contain a secret"):
        with_owner(TableConfiguration(Protocol(1, 2), Metadata("id", "{}")), {**PLAIN, "endpoint": endpoint})


@pytest.mark.parametrize("key", ["token", "apiKey", "api-key", "accessKey", "client_secret", "dbPassword"])
def test_a_setting_whose_name_speaks_of_a_secret_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'{key}' looks like one"):
        with_owner(TableConfiguration(Protocol(1, 2), Metadata("id", "{}")), {**PLAIN, key: "x"})


@pytest.mark.parametrize("endpoint", [None, "https://owner.example:8443", "https://owner.example/lake", "owner:80"])
def test_a_plain_endpoint_is_kept(endpoint: str | None) -> None:
    told = {} if endpoint is None else {"endpoint": endpoint}
    assert own_conf("o-1", "t-1", endpoint, "flights") == {**PLAIN, "name": "flights", **told}
