"""Options of readers and writers: mistyped names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument
from slackwater.spark.session.reader_options import Options

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("mergeShema", "mergeSchema"),
        ("versionAs", "versionAsOf"),
        ("version", "versionAsOf"),
        ("timestamp_as_of", "timestampAsOf"),
        ("readChangeFeeds", "readChangeFeed"),
        ("OVERWRITESCHEMAS", "overwriteSchema"),
        ("replacewhere_", "replaceWhere"),
        ("maxFilePerTrigger", "maxFilesPerTrigger"),
    ],
)
def test_a_mistyped_option_says_which_one_was_meant(given: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(f"unknown option {given}: did you mean {meant}?")):
        Options({given: "x"}).require_meant()


def test_options_of_others_are_let_pass() -> None:
    others = "header inferSchema sep mode basePath pathGlobFilter recursiveFileLookup datetimeRebaseMode dbtable url"
    known = dict.fromkeys((*others.split(), "MERGESCHEMA", "delta.mergeShema", "fs.s3a.key", "aws_regio"), "x")
    Options(known).require_meant()


def test_every_option_of_the_page_is_known() -> None:
    rows = re.findall(r"^\| (`.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"[`/]([a-z]+(?:[A-Z][a-z]+)+)", row)}
    assert {"versionAsOf", "endingTimestamp", "mergeSchema", "txnVersion"} <= names
    for name in names:
        # What is known is not taken for a slip, and a slip is taken for it.
        Options({name: "x"}).require_meant()
        with pytest.raises(InvalidArgument, match=f"did you mean {name}"):
            Options({name + "s": "x"}).require_meant()
