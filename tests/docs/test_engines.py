"""The page of engines and features says what the interoperability tests hold."""

from __future__ import annotations

from tools import engine_table

from tests.interop.features import TABLE_FEATURES
from tests.interop.peers import PEERS


def test_the_page_is_the_table_of_the_catalogue() -> None:
    assert set(engine_table.PEERS) == set(PEERS)
    assert all(not feature.gaps for feature in TABLE_FEATURES), "the page says that both write each feature"
    assert engine_table.PAGE.read_text(encoding="utf-8") == engine_table.engine_table()
