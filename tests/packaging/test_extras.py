"""What works without an extra, and the sentence for what does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument
from slackwater.optional_dependencies import EXTRAS, missing_sentence, require
from tests.packaging.without_spark import MOST_MB, MOST_S, costs

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "data" / "tables" / "table-with-dv-small"
# What `pip install slackwater` brings; everything else that is installed is hidden.
_WITHOUT = """
import sys
hidden = {names}
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
        return None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in hidden else found(name, package)
sys.meta_path.insert(0, Hidden())
"""
_EXTRA = {name for names in EXTRAS.values() for name in names} | {"pyspark", "pandas", "polars", "duckdb", "psycopg"}


def without_extras(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    text = _WITHOUT.format(names=sorted(_EXTRA)) + program
    return subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=False)


def test_the_names_of_the_extras_are_those_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def installed(extra: str) -> set[str]:
        listed = re.search(rf"(?m)^{extra} = (\[.*\])$", project)
        assert listed is not None, extra
        names: set[str] = set()
        for each in re.findall(r'"([\w-]+)(?:\[([\w,]+)\])?', listed[1]):
            names |= {n for e in each[1].split(",") for n in installed(e)} if each[0] == "slackwater" else {each[0]}
        return names

    for extra, names in EXTRAS.items():
        said = {{"jwt": "pyjwt"}.get(name, name).replace("_", "-") for name in names}
        # What the command line adds is told of by the command line.
        assert said == installed(extra) - ({"typer", "rich"} if extra != "cli" else set())


def test_the_import_costs_little() -> None:
    seconds, megabytes = costs()
    assert seconds <= MOST_S
    assert megabytes <= MOST_MB


def test_a_table_is_read_and_written_without_any_extra(tmp_path: Path) -> None:
    program = """
import slackwater, pathlib, pyarrow as pa, pyarrow.parquet as pq
from slackwater.protocol.schema.schema import PrimitiveType
snapshot = slackwater.Snapshot.load(sys.argv[1])
assert snapshot.files(where="value > 3").num_rows == 1
assert snapshot.history()
assert not any(name in sys.modules for name in hidden)
print(snapshot.version)
"""
    done = without_extras(program, str(TABLE))
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("slackwater.Snapshot.load('s3://bucket/table')", "stores"),
        ("slackwater.Snapshot.load('memory://somewhere')", "stores"),
        ("LogLake.open(sys.argv[1])", "lake"),
        ("LogLake.connect('https://localhost:1')", "lake"),
        ("LogLake.recover_state(sys.argv[1])", "lake"),
    ],
)
def test_what_needs_an_extra_says_so_in_one_sentence(line: str, extra: str, tmp_path: Path) -> None:
    program = f"""
import slackwater
from slackwater.lake.lake import LogLake
try:
    {line}
except slackwater.errors.InvalidArgument as error:
    print(error)
"""
    done = without_extras(program, str(tmp_path / "lake"))
    assert re.fullmatch(rf"an? .* needs .*: pip install 'slackwater\[{extra}\]'\n", done.stdout), done
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_without_its_packages_says_so_in_one_sentence() -> None:
    done = without_extras("import slackwater.__main__")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the command line needs typer, rich, which are not installed: pip install 'slackwater[cli]'\n"
    )


def test_what_is_there_is_not_asked_for() -> None:
    require("lake", "a lake")
    assert missing_sentence("stores", "an object store", ["obstore"]) == (
        "an object store needs obstore, which is not installed: pip install 'slackwater[stores]'"
    )


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "lake", ("sqlalchemy", "no_such_package"))
    with pytest.raises(InvalidArgument, match=r"^a lake needs no_such_package, which is not installed: pip install"):
        require("lake", "a lake")
