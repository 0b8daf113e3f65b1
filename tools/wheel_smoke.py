"""Build the wheel, install it into new environments and run a user's first lines there; `make wheel-smoke`.

    python -m tools.wheel_smoke [--python PATH ...] [--pyspark VERSION ...] [--mode classic|connect|plain ...]

The default is every Python from 3.10 to 3.14 on this machine, each with its newest PySpark. Python 3.11, or the oldest
one, also runs every minor release of PySpark since 4.0. Each combination runs in both modes, and without Spark. The
results go into tests/packaging/versions.json, and from there into the table of docs/guides/versions.md. The exit code
is 1 if a combination failed.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools import version_table
from tools.version_table import FAILED, NOT_AVAILABLE, PASSED, PYSPARKS, PYTHONS, Run

ROOT = Path(__file__).resolve().parents[1]
LINES = ROOT / "tests" / "packaging"
# One Python for every PySpark, and one PySpark for every Python.
COMMON_PYTHON = "3.11"
NEWEST = ""
PROGRAMS = {
    "plain": ("slackwater", "without_spark.py"),
    "classic": ("slackwater[spark,lake]", "start_lines.py"),
    "connect": ("slackwater[connect,lake]", "start_lines.py"),
}


class NoRelease(Exception):
    """pip found no release of the requested PySpark for this Python."""


def printed(python: str, line: str) -> str:
    """Return the output of a line of Python."""
    done = subprocess.run([python, "-c", line], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def version_of(python: str) -> str | None:
    """Return the `major.minor` of an interpreter, or None if it does not run."""
    try:
        return printed(python, "import sys; print('%d.%d' % sys.version_info[:2])")
    except (OSError, subprocess.CalledProcessError):
        return None


def found_pythons() -> dict[str, str]:
    """The interpreters of this machine by their version: those on the path, and pyenv's."""
    found: dict[str, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in PYTHONS:
        named = [shutil.which("python" + version), *sorted(map(str, pyenv.glob(version + ".*/bin/python")))]
        for path in filter(None, named):
            if version_of(path) == version:
                found[version] = path
                break
    return found


def combinations(options: argparse.Namespace) -> Iterator[tuple[str, str, str | None, str]]:
    """(python, version, pyspark, mode) of every environment to try."""
    pythons: dict[str, str] = {}
    for path in options.python or ():
        runs = version_of(path)
        if runs is None:
            raise SystemExit("%s: is not a Python that runs" % path)
        pythons[runs] = path
    if not options.python:
        pythons = found_pythons()
        missing = [version for version in PYTHONS if version not in pythons]
        if missing:
            print("no Python %s here: not tried" % ", ".join(missing), flush=True)
    common = COMMON_PYTHON if COMMON_PYTHON in pythons else min(pythons, default=None)
    for (version, path), mode in itertools.product(pythons.items(), options.mode):
        if mode == "plain":
            yield path, version, None, mode
            continue
        for spark in options.pyspark or (PYSPARKS if version == common else (NEWEST,)):
            yield path, version, spark, mode


def environment(python: str, wheel: Path, extra: str, spark: str | None, at: Path) -> str:
    """A new virtual environment with the wheel and what its extra brings; its interpreter."""
    subprocess.run([python, "-m", "venv", str(at)], check=True)
    pip = [str(at / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # PySpark is a source archive: pip builds its wheel once for all environments.
    pip.append("--use-pep517")
    wanted = ["%s @ %s" % (extra, wheel.as_uri())]
    if spark:
        # A minor release is its newest patch.
        wanted.append("pyspark==%s%s" % (spark, ".*" if spark.count(".") == 1 else ""))
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True)
    # Without an index, pip finds no version at all.
    if "No matching distribution found for pyspark" in done.stderr and "(from versions: none)" not in done.stderr:
        raise NoRelease
    sys.stderr.write(done.stderr)
    done.check_returncode()
    return pip[0]


def megabytes(python: str) -> int:
    """The size of the environment's packages."""
    packages = printed(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
    du = subprocess.run(["du", "-sm", packages], check=True, capture_output=True, text=True)
    return int(du.stdout.split()[0])


def tried(python: str, program: str, mode: str, place: Path) -> tuple[bool, str]:
    """Whether the program passes in the environment, and what it printed."""
    # Nothing of this tree, nor of the caller's environment.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK", "PYSPARK", "SLACKWATER"))}
    arguments = [python, str(LINES / program), *([] if mode == "plain" else [mode]), str(place)]
    try:
        done = subprocess.run(arguments, cwd=place, env=kept, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired as late:
        return False, "no end after %d s" % late.timeout
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stdout + done.stderr[-4000:]


def smoke(python: str, wheel: Path, spark: str | None, mode: str, at: Path, place: Path) -> tuple[str, int, str]:
    """Try one combination and record it; its result, the size of its environment in MB and its output.

    A failed installation is not recorded, because its usual cause is the network.
    """
    extra, program = PROGRAMS[mode]
    try:
        inside = environment(python, wheel, extra, spark, at)
        size = megabytes(inside)
    except NoRelease:
        if spark:
            record(python, spark, mode, NOT_AVAILABLE)
        return NOT_AVAILABLE, 0, "no release of PySpark %s for this Python" % (spark or "")
    except subprocess.CalledProcessError as error:
        return FAILED, 0, "the environment could not be made: %s" % error
    passed, said = tried(inside, program, mode, place)
    result = PASSED if passed else FAILED
    installed = None if spark is None else printed(inside, "import pyspark; print(pyspark.__version__)")
    record(python, installed, mode, result)
    return result, size, said


def record(python: str, pyspark: str | None, mode: str, result: str) -> None:
    """Record the result of a run of today, and write the page."""
    exact = printed(python, "import platform; print(platform.python_version())")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    version_table.record_run(Run(exact, pyspark, mode, today, result))
    version_table.write_page()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", help="an interpreter; repeatable")
    parser.add_argument("--pyspark", action="append", help="a release, as 4.0 or 4.0.1; repeatable")
    parser.add_argument("--mode", action="append", choices=tuple(PROGRAMS), help="repeatable; all by default")
    options = parser.parse_args()
    options.mode = options.mode or list(PROGRAMS)
    results = []
    with tempfile.TemporaryDirectory(prefix="wheel-smoke-") as kept:
        work = Path(kept)
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work), str(ROOT)],
            check=True,
        )
        (wheel,) = work.glob("*.whl")
        for number, (python, version, spark, mode) in enumerate(combinations(options)):
            name = "Python %s, %s%s" % (version, "no Spark" if spark is None else "PySpark " + (spark or "newest"), "")
            print("==== %s, %s" % (name, mode), flush=True)
            at, place = work / ("env-%d" % number), work / ("place-%d" % number)
            place.mkdir()
            begun = time.monotonic()
            result, size, said = smoke(python, wheel, spark, mode, at, place)
            print(said, flush=True)
            results.append((result, "%s, %s: %d MB, %.0f s" % (name, mode, size, time.monotonic() - begun)))
            shutil.rmtree(at, ignore_errors=True)
            shutil.rmtree(place, ignore_errors=True)
    for result, line in results:
        print("%-13s  %s" % (result, line))
    return 0 if results and all(result != FAILED for result, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
