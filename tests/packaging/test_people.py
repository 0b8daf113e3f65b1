"""`make people`: pages run as they stand, and a page that does not run is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools import people

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages import the package of this tree."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))


def run(page: Path | str, mode: str, tmp_path: Path) -> people.Outcome:
    return people.run_page(str(page), mode, sys.executable, tmp_path / "page.log")


def written(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text.replace("~~~", "```"), encoding="utf-8")
    return page


def test_a_guide_runs_in_a_new_process_from_an_empty_folder(tmp_path: Path) -> None:
    outcome = run("docs/guides/python.md", "plain", tmp_path)
    assert outcome.has_passed, (tmp_path / "page.log").read_text()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_the_first_page_runs_in_a_new_process(tmp_path: Path, mode: str) -> None:
    outcome = run("docs/start.md", mode, tmp_path)
    assert outcome.has_passed, (tmp_path / "page.log").read_text()


@pytest.mark.spark
@pytest.mark.classic
@pytest.mark.long
def test_the_fixture_of_the_guide_to_ci_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pytest runs with Spark, in both modes; its server takes a free port."""
    monkeypatch.setenv("SPARK_TESTING", "1")
    outcome = run("docs/guides/ci-and-docker.md", "plain", tmp_path)
    assert outcome.has_passed, (tmp_path / "page.log").read_text()
    assert (tmp_path / "page.log").read_text().count("2 passed") == 2


def test_a_page_runs_all_its_lines_in_order_with_one_python_and_one_shell(tmp_path: Path) -> None:
    page = written(
        tmp_path,
        """
<!-- file: settings/made.txt -->
~~~text
from the page
~~~
~~~sh
test "$(cat settings/made.txt)" = "from the page"
export SLACKWATER_ANSWER=42
local_answer=43
~~~
~~~python
import os
assert os.environ["SLACKWATER_ANSWER"] == "42"
~~~
~~~console
test "$local_answer" = 43
~~~
<!-- needs: a server -->
~~~python
raise SystemExit("this is not run")
~~~
""",
    )
    outcome = run(page, "plain", tmp_path)
    assert outcome.has_passed, (tmp_path / "page.log").read_text()
    assert outcome.says.startswith("4 blocks, ")
    assert outcome.says.endswith("; skipped, needs a server")


@pytest.mark.parametrize("block", ["~~~python\nmissing\n~~~", "~~~sh\nfalse\ntrue\n~~~"])
def test_the_line_of_a_block_that_fails_is_named(tmp_path: Path, block: str) -> None:
    outcome = run(written(tmp_path, f"# A page\n\n{block}\n"), "plain", tmp_path)
    assert not outcome.has_passed
    assert "line 4" in outcome.says


def test_a_page_with_spark_has_both_modes() -> None:
    found = {page: people.modes_of(page) for page in people.every_page()}
    assert found["README.md"] == found["docs/start.md"] == ("classic", "connect")
    assert found["docs/guides/python.md"] == found["docs/guides/terminal.md"] == ("plain",)
    assert "docs/glossary.md" not in found


def test_an_unknown_page_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        people.main(["--page", "docs/nowhere.md"])
    assert "not a page with lines to run: docs/nowhere.md" in capsys.readouterr().err
