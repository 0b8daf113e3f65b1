"""What is built for users: the wheel and the source distribution, from these sources."""

from __future__ import annotations

import email
import email.message
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import cast

import pytest

import slackwater

pytest.importorskip("hatchling", reason="the wheel is built by hatchling: pip install --group test")

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "slackwater"
_BESIDE = ("pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")


# hatchling, in a process with another clock.
_BUILD = """
import runpy, sys, time
offset_s, real = float(sys.argv.pop(1)), time.time
time.time = lambda: real() + offset_s
runpy.run_module("hatchling", run_name="__main__", alter_sys=True)
"""


def built(
    project: Path, into: Path, *, clock_offset_s: float = 0, umask: int = 0o022, zone: str = "UTC"
) -> dict[str, Path]:
    """The wheel and the sdist of the project, by their kind. No variable sets their time."""
    build = [sys.executable, "-c", _BUILD, str(clock_offset_s), "build", "--directory", str(into)]
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"} | {"TZ": zone}
    subprocess.run(build, cwd=project, check=True, capture_output=True, env=environment, umask=umask)
    return {"sdist" if path.suffix == ".gz" else "wheel": path for path in into.iterdir()}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built(ROOT, tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def metadata(here: dict[str, Path]) -> email.message.Message:
    with zipfile.ZipFile(here["wheel"]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(wheel.read(name))


def tracked() -> set[str]:
    """The files of the package that are the repository's, as the wheel names them."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", str(SOURCES)]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return {path.removeprefix("src/") for path in done.stdout.splitlines() if (ROOT / path).is_file()}


def test_the_wheel_has_every_file_of_the_package_and_nothing_beside_it(here: dict[str, Path]) -> None:
    with zipfile.ZipFile(here["wheel"]) as wheel:
        names = set(wheel.namelist())
    about = {name for name in names if ".dist-info/" in name}
    assert names - about == tracked()
    assert {"slackwater/py.typed", "slackwater/owner/database/migrations/script.py.mako"} < names
    assert any(name.endswith("/licenses/LICENSE") for name in about)


def test_the_source_distribution_has_the_package_and_no_tests(here: dict[str, Path]) -> None:
    with tarfile.open(here["sdist"]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {name.removeprefix("src/") for name in names if name.startswith("src/")} == tracked()
    assert {name for name in names if not name.startswith("src/")} == {*_BESIDE, "PKG-INFO"}
    assert here["sdist"].stat().st_size < 5_000_000


def test_the_same_sources_make_the_same_bytes_wherever_and_whenever(here: dict[str, Path], tmp_path: Path) -> None:
    project = tmp_path / "elsewhere"
    shutil.copytree(SOURCES, project / "src" / "slackwater", ignore=shutil.ignore_patterns("__pycache__"))
    for name in _BESIDE:
        shutil.copyfile(ROOT / name, project / name)
    for path in project.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(0o700 if path.is_dir() else 0o600)
    there = built(project, tmp_path / "out", clock_offset_s=-1e8, umask=0o077, zone="Pacific/Kiritimati")
    hashes = [{kind: hashlib.sha256(p.read_bytes()).hexdigest() for kind, p in each.items()} for each in (here, there)]
    assert hashes[0] == hashes[1]


def test_the_version_is_said_in_one_place(here: dict[str, Path], metadata: email.message.Message) -> None:
    assert metadata["Version"] == slackwater.__version__
    assert here["wheel"].name.startswith(f"slackwater-{slackwater.__version__}-py3-none-any")
    said = subprocess.run(
        ["git", "grep", "-lF", f'"{slackwater.__version__}"', "--", "src", "pyproject.toml"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == ["src/slackwater/version.py"]


def test_the_licence_is_said_in_the_form_of_spdx(metadata: email.message.Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]


def test_what_only_this_repository_needs_is_no_extra(metadata: email.message.Message) -> None:
    extras = set(metadata.get_all("Provides-Extra") or ())
    users = "cli spark connect lake stores postgres server png otel pandas polars duckdb"
    assert extras == set(users.split())
    required = " ".join(metadata.get_all("Requires-Dist") or ())
    assert not any(name in required for name in ("pytest", "mypy", "ruff", "hypothesis", "moto", "psutil"))


def test_the_readme_of_a_package_has_no_link_to_a_file_of_the_repository(metadata: email.message.Message) -> None:
    text = cast("bytes", metadata.get_payload(decode=True)).decode("utf-8")
    assert text.startswith("# Slackwater")
    assert re.findall(r"\]\((?!https?:|#)", text) == []
    assert "Five minutes to start, coming from delta-spark" in text


def test_no_caption_is_left_of_a_picture_that_a_package_does_not_have() -> None:
    from hatch_build import readme

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    caption = "is one line across them"
    assert caption in text
    assert caption not in readme(text, None)
    assert caption in readme(text, "https://docs.example.com")
    assert readme("a\n\n![p](docs/d.svg)\n\nb *c*\n", None) == "a\n\nb *c*\n"


def test_links_of_the_readme_are_whole_where_the_site_has_an_address() -> None:
    from hatch_build import readme

    text = readme((ROOT / "README.md").read_text(encoding="utf-8"), "https://docs.example.com/")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 15
    for link in links:
        page = link.partition("https://docs.example.com/")[2]
        assert (ROOT / "docs" / page.replace(".html", ".md")).is_file(), link
    assert readme("[a](docs/b.md#c) ![p](docs/d.svg) [e](LICENSE) [f](#g)", "https://x") == (
        "[a](https://x/b.html#c) ![p](https://x/d.svg) e [f](#g)"
    )
