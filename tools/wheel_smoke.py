"""Build the wheel, install it into new environments and run a user's first lines there; `make wheel-smoke`.

    python tools/wheel_smoke.py [--python PATH ...] [--pyspark VERSION ...] [--mode classic|connect|plain ...]

By default every Python from 3.10 to 3.14 that is found here, each with its newest PySpark, and 3.11, or the oldest of
them, with every minor release of PySpark since 4.0; in both modes, and without Spark. A table at the end says what
passed; exit code 1 where something did not.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES = ROOT / "tests" / "packaging"
MINORS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# One Python for every PySpark, and one PySpark for every Python.
COMMON_PYTHON = "3.11"
NEWEST = ""
PROGRAMS = {
    "plain": ("slackwater", "without_spark.py"),
    "classic": ("slackwater[spark,lake]", "start_lines.py"),
    "connect": ("slackwater[connect,lake]", "start_lines.py"),
}


def version_of(python: str) -> str | None:
    """The `major.minor` of an interpreter, None where it does not run."""
    try:
        said = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


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
        for spark in options.pyspark or (MINORS if version == common else (NEWEST,)):
            yield path, version, spark, mode


def environment(python: str, wheel: Path, extra: str, spark: str | None, at: Path) -> str:
    """A new virtual environment with the wheel and what its extra brings; its interpreter."""
    subprocess.run([python, "-m", "venv", str(at)], check=True)
    pip = [str(at / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["%s @ %s" % (extra, wheel.as_uri())]
    if spark:
        # A minor release is its newest patch.
        wanted.append("pyspark==%s%s" % (spark, ".*" if spark.count(".") == 1 else ""))
    subprocess.run([*pip, *wanted], check=True)
    return pip[0]


def megabytes(python: str) -> int:
    """The size of the environment's packages."""
    said = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    du = subprocess.run(["du", "-sm", said.stdout.strip()], check=True, capture_output=True, text=True)
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
            try:
                inside = environment(python, wheel, PROGRAMS[mode][0], spark, at)
                size = megabytes(inside)
                passed, said = tried(inside, PROGRAMS[mode][1], mode, place)
            except subprocess.CalledProcessError as error:
                size, passed, said = 0, False, "the environment could not be made: %s" % error
            print(said, flush=True)
            results.append((passed, "%s, %s: %d MB, %.0f s" % (name, mode, size, time.monotonic() - begun)))
            shutil.rmtree(at, ignore_errors=True)
            shutil.rmtree(place, ignore_errors=True)
    for passed, line in results:
        print("%s  %s" % ("ok    " if passed else "FAILED", line))
    return 0 if results and all(passed for passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
