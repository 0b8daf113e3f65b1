"""What a class offers is named in a page for people, not only in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import slackwater
from slackwater.lake.lake import LogLake
from slackwater.spark.lake.transaction import LakeTransaction

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "reference")]
KINDS = [slackwater.DeltaTable, slackwater.Lake, slackwater.Snapshot, slackwater.Transaction, LakeTransaction, LogLake]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_name_of_a_class_is_in_a_page(kind: type) -> None:
    words = set(re.findall(r"\w+", "\n".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert [name for name in dir(kind) if not name.startswith("_") and name not in words] == []
