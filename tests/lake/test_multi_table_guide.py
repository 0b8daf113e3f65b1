"""The page about multi-table transactions in the open form: its lines run as they stand, and it cites tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.lake.lake import LogLake
from slackwater.log.files.commits import commits_after
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from slackwater.storage.open import open_store
from tests.cli.commands import run
from tests.stores.documents import blocks, run_document

PAGE = "docs/multi-table-transactions.md"
TESTS = Path(__file__).parents[1]


def test_the_lines_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_document(PAGE, names, {})
    shown, _ = blocks(PAGE, "json")
    with LogLake.open("work/lake") as lake:
        groups = []
        for name in ("orders", "stock"):
            lake.backfill(name)
            (commit,) = commits_after(open_store(lake.owner.table(name).location), 0)
            group = TransactionGroup.among(commit.actions, name)
            assert group is not None
            groups.append(group)
        assert groups[0] == groups[1]
        assert groups[0].transaction_id == names["tx"].id
        # The line of the page has the form of the log, with shorter ids.
        written = orjson.dumps(groups[0].to_json()).decode()
        assert re.sub(r'"[0-9a-f]{2}[0-9a-f-]{34}"', '"…"', written) == re.sub(
            r'"[0-9a-f]{2}…"', '"…"', orjson.dumps(orjson.loads(shown)).decode()
        )
    lines = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        done = run(*shlex.split(line)[1:])
        assert done.exit_code == 0, done.output


def test_each_statement_cites_tests_that_are_there() -> None:
    text = (TESTS.parent / PAGE).read_text(encoding="utf-8")
    cited = re.findall(r"`([a-z_/]+\.py)`", text.partition("| statement | test |")[2])
    assert len(cited) > 8
    assert [name for name in cited if not (TESTS / name).is_file()] == []
