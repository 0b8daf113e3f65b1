"""Every block of Python in the README and the guides is run by a test, or says why it is not."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.stores.documents import marked_blocks

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]
WITH_PYTHON = [document for document in DOCUMENTS if marked_blocks(document)]

PICKED = {
    "docs/guides/streaming.md": {
        "tests/spark/streams/test_sink_guide.py": ["arrived.write.parquet", "flights.writeStream.f", "flights.groupBy"],
        "tests/spark/streams/test_reading_guide.py": ["work/flights_of_aa", "def carriers(batch, tx)", '"board"'],
        "tests/spark/streams/test_watching_guide.py": ["lastProgress", "slackwater.watch(", "def merge"],
    },
}
"""Documents whose blocks several tests pick, by texts that they have: each block is picked by one."""

COMMANDS = {
    "README.md": "tests/spark/docs/test_guides.py",
    "docs/guides/ci-and-docker.md": "tests/packaging/test_people.py",
    "docs/guides/convert.md": "tests/spark/maintenance/test_convert_guide.py",
    "docs/guides/look.md": "tests/cli/test_look_guide.py",
    "docs/guides/maintenance.md": "tests/spark/maintenance/test_guide.py",
    "docs/guides/monitoring.md": "tests/cli/test_monitoring_guide.py",
    "docs/guides/run-an-owner.md": "tests/cli/test_run_an_owner.py",
    "docs/guides/streaming.md": "tests/spark/streams/test_watching_guide.py",
    "docs/guides/terminal.md": "tests/cli/test_guide.py",
    "docs/guides/unity-catalog.md": "tests/spark/lake/test_unity_catalog.py",
    "docs/multi-table-transactions.md": "tests/lake/test_multi_table_guide.py",
    "docs/start.md": "tests/packaging/test_people.py",
    "docs/recovery.md": "tests/lake/test_restored_database.py",
}
"""Which module of tests runs the lines for a shell."""

_FENCE = re.compile(r"^ *```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)

NOT_RUN: dict[str, int] = {}
"""How many blocks say that they are not run."""


@cache
def _tests() -> dict[str, ast.Module]:
    """The modules of tests that run blocks, but for those that look at documents only."""
    found = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    running = {path: text for path, text in found.items() if "tests.stores.documents" in text}
    return {str(p.relative_to(ROOT)): ast.parse(text) for p, text in running.items() if p.parent != ROOT / "tests/docs"}


def _runs_all_of(tree: ast.Module, document: str) -> bool:
    """Whether a module of tests goes through all blocks of a document.

    That is by `run_document`, by a loop over `blocks`, or by a name for each of them.
    """
    named = {t.id for n in tree.body if isinstance(n, ast.Assign) and _says(n.value, document) for t in _targets(n)}
    # A table by documents, of which tests are made.
    is_tabled = any(isinstance(n, ast.AnnAssign) and _has_key(n.value, document) for n in tree.body)
    for call in _of_all_blocks(tree):
        told = call.args[0] if call.args else None
        if _says(told, document) or (isinstance(told, ast.Name) and (told.id in named or is_tabled)):
            return True
    return False


def _of_all_blocks(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "run_document":
            yield node
        of_all: list[ast.expr] = []
        if isinstance(node, ast.For) or (isinstance(node, ast.comprehension) and not node.ifs):
            of_all = [node.iter]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            of_all = [node.value] if not any(isinstance(e, ast.Starred) for e in node.targets[0].elts) else []
        yield from (e for e in of_all if isinstance(e, ast.Call) and _called(e) in ("blocks", "marked_blocks"))


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    yield from (target for target in targets if isinstance(target, ast.Name))


def _says(node: ast.expr | None, document: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == document


def _has_key(node: ast.expr | None, document: str) -> bool:
    return isinstance(node, ast.Dict) and any(_says(key, document) for key in node.keys)


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


@pytest.mark.parametrize("document", WITH_PYTHON)
def test_a_test_runs_every_block_of_a_document(document: str) -> None:
    # The content of a file is run by the lines for a shell.
    wanted = [block for block in marked_blocks(document) if block.reason is None and block.file is None]
    if document in PICKED:
        picked = [text for texts in PICKED[document].values() for text in texts]
        assert [sum(text in block.text for text in picked) for block in wanted] == [1] * len(wanted)
        assert len(picked) == len(wanted)
        assert [name for name in PICKED[document] if name not in _tests()] == []
    elif wanted:
        assert [name for name, tree in _tests().items() if _runs_all_of(tree, document)], f"no test runs {document}"


def test_what_is_not_run_says_why_and_is_counted() -> None:
    counted = {d: sum(block.reason is not None for block in marked_blocks(d)) for d in WITH_PYTHON}
    assert {document: number for document, number in counted.items() if number} == NOT_RUN


def test_the_lines_for_a_shell_are_run_by_the_tests_that_are_named() -> None:
    shells = {d: [*marked_blocks(d, "console"), *marked_blocks(d, "sh")] for d in DOCUMENTS}
    with_lines = sorted(d for d, found in shells.items() if any(block.reason is None for block in found))
    assert with_lines == sorted(COMMANDS)
    for document, module in COMMANDS.items():
        text = (ROOT / module).read_text(encoding="utf-8")
        assert Path(document).name in text, f"{module} does not run the lines of {document}"


def test_a_page_makes_every_name_that_it_uses(tmp_path: Path) -> None:
    """A page runs in a new process, so it imports and creates what its later blocks use."""
    for document, mode in itertools.product(WITH_PYTHON, ("classic", "connect")):
        texts = [block.text for block in marked_blocks(document) if block.is_for(mode)]
        (tmp_path / f"{document.replace('/', '-')}-{mode}.py").write_text("\n".join(texts), encoding="utf-8")
    checked = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--quiet", str(tmp_path)]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_page_needs_no_folder_of_root_and_no_moment_of_its_author(document: str) -> None:
    """Tables are in the folder `work`, and times come from commits of the page."""
    shown = [block for language in ("python", "console", "sh") for block in marked_blocks(document, language)]
    code = "\n".join(block.text for block in shown if block.reason is None)
    assert re.findall(r"[\"' `]/data/\S*|\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*", code) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_line_for_a_shell_hides_in_a_block_that_names_no_language(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = [(found["language"].split(" ")[0], found["text"]) for found in _FENCE.finditer(text)]
    hidden = [block for language, block in blocks if not language and re.search(r"(?m)^\s*(\$ )?slackwater ", block)]
    assert hidden == []
