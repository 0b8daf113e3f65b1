"""delta-spark beside this project: `python -m tests.interop.install_delta_spark` makes it, `find` says where it is.

delta-spark has its own virtual environment, because it pins a PySpark that is not ours; its JARs come from Maven. The
folder is `$SLACKWATER_DELTA_SPARK`, or one named after the version in the user's cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = "4.4.0"
"""The newest delta-spark whose JARs are on Maven Central."""

HOW_TO_INSTALL = "delta-spark is not installed: python -m tests.interop.install_delta_spark (needs Maven)"

# Variables of this process's own Spark and Python, which are not for that one: where it is, or that it is a server.
_OWN_SPARK = (
    "SPARK_HOME", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "PYTHONPATH",
    "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS",
)  # fmt: skip

_SCALA = "2.13"
_RECORD = "installation.json"
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>interop</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.delta</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """A delta-spark that can be started: its Python, and the folder of the JARs that its PySpark does not bring."""

    python: str
    jars: str
    delta_spark: str
    pyspark: str


def folder() -> Path:
    """Where the installation is, or would be."""
    given = os.environ.get("SLACKWATER_DELTA_SPARK")
    if given:
        return Path(given).resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "slackwater" / f"delta-spark-{VERSION}"


def find() -> Installation | None:
    """The installation, None where there is none that was finished."""
    record = folder() / _RECORD
    return Installation(**json.loads(record.read_text())) if record.is_file() else None


def environment() -> dict[str, str]:
    """The environment variables to start another Spark with: those of this process that do not speak of its own."""
    return {key: value for key, value in os.environ.items() if key not in _OWN_SPARK} | {"TZ": "UTC"}


def install() -> Installation:
    """Make the virtual environment and fetch the JARs; what is there already is kept."""
    found = find()
    if found is not None:
        return found
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("Maven (mvn) is needed to fetch delta-spark's JARs, and is not on the PATH")
    root = folder()
    shutil.rmtree(root, ignore_errors=True)
    venv.create(root, with_pip=True)
    python = root / ("Scripts" if os.name == "nt" else "bin") / "python"
    packages = [f"delta-spark=={VERSION}", "pyarrow", "pandas<3"]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    pyspark = _answer(python, "import pyspark; print(pyspark.__version__)")
    bundled = Path(_answer(python, "import pyspark; print(pyspark.__path__[0])")) / "jars"
    _fetch_jars(maven, ".".join(pyspark.split(".")[:2]), root / "jars", bundled)
    installation = Installation(str(python), str(root / "jars"), VERSION, pyspark)
    # Written last: a folder without it is an installation that broke off.
    (root / _RECORD).write_text(json.dumps(asdict(installation), indent=2) + "\n")
    return installation


def _fetch_jars(maven: str, spark: str, jars: Path, bundled: Path) -> None:
    """delta-spark's JARs for a Spark of this minor version, without those that PySpark has in a version of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        pom = _POM.format(artifact=f"delta-spark_{spark}_{_SCALA}", version=VERSION)
        (Path(scratch) / "pom.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        subprocess.run([maven, "--batch-mode", "--quiet", *goal], cwd=scratch, check=True)
    theirs = {artifact_of(jar.name) for jar in bundled.glob("*.jar")}
    for jar in jars.glob("*.jar"):
        if artifact_of(jar.name) in theirs:
            jar.unlink()


def artifact_of(jar: str) -> str:
    """`delta-storage` of `delta-storage-4.4.0.jar`: what stands before the part that starts with a digit."""
    parts = jar.split("-")
    return "-".join(parts[: next((i for i, part in enumerate(parts) if part[:1].isdigit()), len(parts))])


def _answer(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    done = install()
    sys.stdout.write(f"delta-spark {done.delta_spark} with PySpark {done.pyspark}: {folder()}\n")
