"""Whether tests notice a mutant: a process forked for each, in a copy of the tree, ended where it takes too long."""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

_HEAVY = ("numpy", "pyarrow.parquet", "pyarrow.compute", "sqlalchemy", "alembic", "sqlglot", "obstore", "orjson",
          "pyroaring", "httpx", "hypothesis.strategies", "psycopg", "fastapi", "uvicorn", "requests",
          "prometheus_client", "opentelemetry.trace")  # fmt: skip
"""What many trials import: here it is imported once, before the fork. None of it starts a thread by that."""
_PLUGINS = ("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "_hypothesis_pytestplugin")
_COPIED = ("src", "tests", "pyproject.toml", "docs", "README.md", "CHANGELOG.md")


@dataclass(frozen=True, slots=True)
class Trials:
    """A copy of a tree, at `root`, in which mutants are tried."""

    root: Path

    @classmethod
    def of(cls, tree: Path, root: Path) -> Trials:
        """Copy `tree` to `root`, and get ready for forks; from now on no mutant is kept as bytecode."""
        skipped = shutil.ignore_patterns("__pycache__", ".*")
        for name in _COPIED:
            if (tree / name).is_dir():
                shutil.copytree(tree / name, root / name, ignore=skipped, dirs_exist_ok=True)
            elif (tree / name).exists():
                shutil.copy2(tree / name, root / name)
        for name in _HEAVY:
            with suppress(ImportError):
                importlib.import_module(name)
        sys.dont_write_bytecode = True
        return cls(root)

    def run(self, tests: Sequence[str], limit_s: float) -> int:
        """The exit code of pytest over `tests`, in a process of their own that ends with the first failure.

        Negative where it had to be ended, or ended itself, by a signal.
        """
        finished, in_child = os.pipe()
        child = os.fork()
        if child == 0:
            _run(self.root, tests)
        os.close(in_child)
        try:
            # The pipe ends with the last process that has it, children of tests too.
            in_time = bool(select.select([finished], [], [], limit_s)[0])
        finally:
            os.close(finished)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL) if not in_time else None
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    @contextmanager
    def changed(self, module: str, text: str) -> Iterator[None]:
        """`module`, a path below `src`, is `text` within the block."""
        path = self.root / "src" / module
        before = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")


def _run(root: Path, tests: Sequence[str]) -> None:
    """The child: it never comes back."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(root)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        sys.path[:] = [str(root / "src"), str(root), *(entry for entry in sys.path if entry not in ("", str(root)))]
        for name in [name for name in sys.modules if name.split(".")[0] in ("slackwater", "tests")]:
            del sys.modules[name]
        os.environ["PYTHONPATH"] = os.pathsep.join((str(root / "src"), os.environ.get("PYTHONPATH", "")))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        # Plugins that happen to be installed cost each trial a second.
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        code = int(pytest.main(["-x", "-q", *_PLUGINS, *tests]))
    finally:
        os._exit(code)
