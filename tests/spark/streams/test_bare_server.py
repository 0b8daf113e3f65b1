"""Streams through a Connect server whose Python has no Slackwater: refused in one sentence before anything begins."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from slackwater import __version__
from slackwater.errors import UnsupportedFeature
from slackwater.spark.streams import server_python
from slackwater.spark.streams.server_python import require_server_python
from tests.cluster.bare_python import bare_python
from tests.cluster.standalone import connect_server, environment
from tests.spark.streams import bare_client

WRITTEN = (
    "through Spark Connect, a Python of the server writes the micro-batches of a stream. It must have slackwater with "
    f"its PySpark (pip install slackwater=={__version__} there): "
)
READ = "the Python of the executors, which reads the stream, must have slackwater (pip install slackwater=="


# The server and its client are processes of their own: the mode of the session is all the same.
@pytest.mark.spark
@pytest.mark.classic
@pytest.mark.long
def test_a_stream_is_refused_before_it_starts_and_all_else_goes(tmp_path: Path) -> None:
    place, directory = bare_python(tmp_path / "venv"), tmp_path / "data"
    directory.mkdir()
    with connect_server(tmp_path / "server", "local[2]", place) as address:
        command = [sys.executable, bare_client.__file__, address, str(directory)]
        client = subprocess.run(command, env=environment(), capture_output=True, timeout=180, check=False)
    assert client.returncode == 0, client.stderr.decode()
    found = json.loads(client.stdout)
    for step in ("start", "toTable", "several tables"):
        assert found[step] == ["UnsupportedFeature", f"{WRITTEN}slackwater is not installed there"], step
    kind, told = found["source"]
    assert (kind, told.count("must have slackwater")) == ("UnsupportedFeature", 1)
    assert READ in told
    # Nothing of the queries is there; reading, writing and functions of one's own do not need it.
    assert (found["read"], found["own function"], found["tables"]) == (3, 3, [])
    assert found["left"] == ["check-own", "copied", "lake", "source", "t"]


@pytest.mark.parametrize(
    ("there", "lacking"), [("0.0.1", "the version there is 0.0.1"), ("none", "slackwater is not installed there")]
)
def test_a_server_with_another_version_is_refused_and_with_this_one_asked_once(
    monkeypatch: pytest.MonkeyPatch, there: str, lacking: str
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(server_python, "register", lambda *told: asked.append(told))
    frame = SimpleNamespace(columns=[there])
    reader = SimpleNamespace(format=lambda name: SimpleNamespace(load=lambda: frame))
    spark: Any = SimpleNamespace(read=reader)
    with pytest.raises(UnsupportedFeature) as told:
        require_server_python(spark)
    assert str(told.value) == WRITTEN + lacking
    frame.columns = [__version__]
    require_server_python(spark)
    require_server_python(spark)
    assert len(asked) == 2
