"""A process that reads damaged tables in every public way, and says which way raised what is none of our errors.

Once ready it says so; then it takes one seed per line on stdin, and answers with one line of JSON: the seed, what was
done, what went wrong. Memory is limited; time is for whoever started it to limit.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from slackwater.cli.main import app
from slackwater.errors import SlackwaterError
from slackwater.log.files.last_checkpoint import read_last_checkpoint
from slackwater.log.files.version_checksum import read_version_checksum
from slackwater.log.table_detail import describe_detail, describe_history
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.file_lifetimes import file_lifetimes
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from tests.fuzz.data_files import describe_data_file
from tests.fuzz.mutations import mutated
from tests.fuzz.tables import T, bases

_MOST_BYTES = 1 << 30
_ATTRIBUTES = (
    *("protocol", "metadata", "properties", "schema", "column_mapping_mode", "physical_paths", "timestamp_ms"),
    *("transactions", "domain_metadata"),
)
_COMMANDS = (
    *(("history",), ("history", "--wide"), ("history", "--json"), ("detail",), ("files",), ("files", "--json")),
    *(("schema",), ("schema", "--csv"), ("verify", "--footers"), ("verify", "--json")),
)


_Reader = tuple[str, Callable[[], object]]


def _readers(path: str, chance: random.Random) -> Iterator[_Reader]:
    store = open_store(path)
    yield "hint", lambda: read_last_checkpoint(store)
    yield "checksum", lambda: [read_version_checksum(store, version) for version in (0, 3, 6)]
    newest: list[Snapshot] = []
    yield "load", lambda: newest.append(Snapshot.load(path))
    for snapshot in newest:
        yield from _readers_of(snapshot)
    version = chance.choice((0, 2, 4))
    older: list[Snapshot] = []
    yield f"load {version}", lambda: older.append(Snapshot.load(path, version))
    yield f"files {version}", lambda: [snapshot.files() for snapshot in older]
    yield f"update {version}", lambda: [snapshot.update().files() for snapshot in older]
    moment, after = chance.choice((0, T, T + 25, "2099-01-01")), chance.random() < 0.5
    yield f"time {moment}", lambda: Snapshot.load(path, timestamp=moment, allow_after_last_commit=after)
    command = chance.choice(_COMMANDS)
    yield "command " + " ".join(command), lambda: _command(path, *command)
    for name in sorted(str(found.relative_to(path)) for found in Path(path).rglob("*.parquet")):
        if not name.startswith("_delta_log"):
            yield f"statistics of {name}", functools.partial(describe_data_file, store, name)


def _readers_of(snapshot: Snapshot) -> Iterator[_Reader]:
    for name in _ATTRIBUTES:
        yield name, functools.partial(getattr, snapshot, name)
    yield "files", lambda: snapshot.files().to_pylist()
    yield "vectors", lambda: _vectors(snapshot)
    yield "tombstones", lambda: snapshot.tombstones().to_pylist()
    yield "where", lambda: snapshot.files("id > 3 AND p >= '2024-01-02'")
    yield "lifetimes", lambda: file_lifetimes(snapshot)
    yield "history", lambda: (list(snapshot.history().entries()), describe_history(snapshot))
    yield "detail", lambda: describe_detail(snapshot)


def _vectors(snapshot: Snapshot) -> object:
    vectors = snapshot.files(columns=["deletionVector"])["deletionVector"].to_pylist()
    return load_deletion_vectors(snapshot.store, [vector for vector in vectors if vector])


def _command(path: str, *arguments: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    told = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            _cli()([arguments[0], path, *arguments[1:]])
        except SystemExit as end:
            if end.code not in (0, 1):
                raise AssertionError(f"exit code {end.code}") from end


@functools.cache
def _cli() -> Callable[[list[str]], object]:
    """The command line, built once: that takes longer than reading a table."""
    return get_command(app)


def faults(path: str, chance: random.Random) -> list[str]:
    """The readers that raise what they must not, each with the end of its trace."""
    found = []
    for name, read in _readers(path, chance):
        try:
            read()
        except SlackwaterError as error:
            if not str(error):
                found.append(f"{name}: {type(error).__name__} without a message")
        except Exception as error:  # noqa: BLE001  (this is what is looked for)
            trace = traceback.extract_tb(error.__traceback__)
            places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in trace][-8:]
            found.append(f"{name}: {type(error).__name__}: {str(error)[:200]} at {' '.join(places)}")
    return found


def examine(seed: int, directory: Path) -> dict[str, Any]:
    """What reading the table of `seed` shows."""
    done, files = mutated(seed)
    root = directory / "t"
    try:
        for name, data in files.items():
            place = root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        chance = random.Random(seed)  # noqa: S311  (a seed tells what is read)
        return {"seed": seed, "done": done, "faults": faults(str(root), chance)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _MOST_BYTES, size + _MOST_BYTES))


def main() -> None:
    """Examine each seed that stdin names."""
    warnings.simplefilter("ignore")
    bases()
    with tempfile.TemporaryDirectory() as directory:
        examine(0, Path(directory))
        _limit_memory()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            sys.stdout.write(json.dumps(examine(int(line), Path(directory))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
