"""A Python that has what this one has but Slackwater and the libraries that only it needs, as a server's may be."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

from tests.cluster.standalone import Place

_LEFT_OUT = ("slackwater", "__editable__", "orjson", "pyroaring", "sqlglot", "obstore")


def bare_python(root: Path) -> Place:
    """The place of a process whose Python it is, in an environment of its own below `root`."""
    builder = venv.EnvBuilder(symlinks=True)
    builder.create(root)
    (packages,) = root.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        # A .pth may bring the tree of this package.
        if not each.name.startswith(_LEFT_OUT) and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    python = str(root / "bin" / "python")
    return Place({"PYSPARK_PYTHON": python, "PYTHONPATH": ""})
