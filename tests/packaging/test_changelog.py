"""The form of CHANGELOG.md: an unreleased section, then dated releases with the newest first."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from packaging.version import Version

import slackwater

HEADINGS = re.findall(
    r"^## (.+)$", (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
)


def releases() -> list[tuple[Version, datetime.date]]:
    found = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})", heading) for heading in HEADINGS[1:]]
    assert None not in found, f"not `VERSION - YYYY-MM-DD`: {HEADINGS[1:]}"
    return [(Version(each[1]), datetime.date.fromisoformat(each[2])) for each in found if each is not None]


def test_the_changelog_begins_with_unreleased_changes() -> None:
    assert HEADINGS[0] == "Unreleased"


def test_each_release_has_a_date_and_the_newest_is_first() -> None:
    versions, dates = zip(*releases(), strict=True)
    assert list(versions) == sorted(set(versions), reverse=True)
    assert list(dates) == sorted(dates, reverse=True)


def test_the_version_of_the_package_is_the_newest_release_or_later() -> None:
    assert Version(slackwater.__version__) >= releases()[0][0]


def test_the_groups_of_a_section_are_those_of_keep_a_changelog() -> None:
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    groups = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    for section in text.split("\n## ")[1:]:
        found = re.findall(r"^### (.+)$", section, re.MULTILINE)
        assert len(found) == len(set(found))
        assert set(found) <= groups
