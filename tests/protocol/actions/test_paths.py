from __future__ import annotations

from urllib.parse import quote, unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import PathNotAllowed
from slackwater.protocol.actions.paths import (
    are_distinct,
    are_plain,
    are_plain_texts,
    canonical_path,
    canonical_paths,
    checked_data_path,
    encode_path,
    is_absolute,
)

_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("./part-0.parquet", "part-0.parquet"),
        ("p=a%20b/x", "p=a b/x"),
        ("p=a b/x", "p=a b/x"),
        ("p=a%2520b/x", "p=a%20b/x"),
        ("p=100%/x", "p=100%/x"),
        ("a+b", "a+b"),
        ("%c3%BC", "ü"),
        ("/data/t/x", "/data/t/x"),
        ("/data/a%20b", "/data/a b"),
        ("file:/data/a%20b", "/data/a b"),
        ("file:///data/a%20b", "/data/a b"),
        ("file://localhost/data/x", "/data/x"),
        ("s3://bucket/a%20b", "s3://bucket/a b"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("", ""),
    ],
)
def test_spellings_of_one_file_have_one_canonical_path(path: str, canonical: str) -> None:
    assert canonical_path(path) == canonical


@given(
    st.lists(
        _NAMES | st.sampled_from(["file:///a b", "./x", "/x", "s3://b/x", "..", "a//b", "file:x", "file:./x", ".//x"])
    )
)
def test_many_paths_at_once_are_what_each_is_alone(paths: list[str]) -> None:
    for spelled in (paths, [quote(path) for path in paths], [f"file:///{path}" for path in paths]):
        expected = [canonical_path(path) for path in spelled]
        assert canonical_paths(pa.array(spelled, pa.string())).to_pylist() == expected
        assert canonical_paths(pa.chunked_array([spelled[:1], spelled[1:]], pa.string())).to_pylist() == expected


@pytest.mark.parametrize(
    "odd", ["a", "", "/a", "a/", ".a", "a/.b", "a//b", "..", "a b", "a%20b", "file:a", "ü", "a\0b"]
)
@pytest.mark.parametrize("at", range(3))
def test_a_column_is_plain_where_each_of_its_paths_is(odd: str, at: int) -> None:
    paths = ["a/b", "p=1/a.b", "Z9_-"]
    paths.insert(at, odd)
    whole = pa.chunked_array([paths], pa.string())
    for texts in (whole, pa.chunked_array([paths[:1], paths[1:]], pa.string())):
        assert are_plain_texts(texts) == are_plain(paths) == (odd == "a")
    for first in range(4):
        assert are_plain_texts(whole.slice(first, 1)) == are_plain(paths[first : first + 1])


def test_a_column_with_a_null_is_not_plain() -> None:
    assert not are_plain_texts(pa.chunked_array([["a", None]]))


def test_paths_that_need_no_care_are_not_copied() -> None:
    plain = pa.array(["a.parquet", "p=1/b.parquet"])
    assert canonical_paths(plain) is plain


_LONG = f"part-{'0' * 70}"
_SPELLINGS = [
    *(
        f"{before}{_LONG}{end}"
        for before in ("", "./", "file:", "file:/", "file:///", "file://host/", "/")
        for end in "12"
    ),
    f"{_LONG.replace('-', '%2D')}1",
    "1",
    "./1",
    "p=2/" + _LONG + "1",
]


@given(st.lists(st.sampled_from(_SPELLINGS), max_size=4), st.integers(0, 4))
def test_paths_are_distinct_where_no_two_are_of_one_file(paths: list[str], cut: int) -> None:
    expected = len({canonical_path(path) for path in paths}) == len(paths)
    assert are_distinct(pa.chunked_array([paths[:cut], paths[cut:]], pa.string())) == expected
    sliced = pa.chunked_array([["file:/x", *paths]], pa.string()).slice(1)
    assert are_distinct(sliced) == expected


def _is_name(text: str) -> bool:
    return "/" not in text and text != "." and ".." not in text.split("\\")


@given(st.lists(_NAMES.filter(_is_name), min_size=1, max_size=3))
def test_an_encoded_path_comes_back_decoded(segments: list[str]) -> None:
    path = "/".join(["d", *segments])
    encoded = encode_path(path)
    assert encoded.isascii()
    assert canonical_path(encoded) == path
    assert unquote(encoded) == path
    assert checked_data_path(encoded, "s3://bucket/t", None, allow_outside=False) == path


def test_an_encoded_path_keeps_what_partition_directories_are_made_of() -> None:
    assert encode_path("p=1/q=a b/x#y%.parquet") == "p=1/q=a%20b/x%23y%25.parquet"


@pytest.mark.parametrize(
    ("path", "absolute"),
    [
        ("a", False),
        ("p=2024-01-01 10:00:00/x", False),
        ("a/b:c", False),
        ("/a", True),
        ("file:/a", True),
        ("s3://b/a", True),
        ("C:/a", False),
    ],
)
def test_a_path_is_absolute_with_a_scheme_or_a_leading_slash(path: str, absolute: bool) -> None:
    assert is_absolute(path) is absolute


@pytest.mark.parametrize(
    ("path", "root_url", "local_root", "expected"),
    [
        ("p=1/x", "file:///data/t", "/data/t", "p=1/x"),
        ("p=a%20b/x", "file:///data/t", "/data/t", "p=a b/x"),
        ("/data/t/p=1/x", "file:///data/t", "/data/t", "p=1/x"),
        ("file:/data/t/a%20b", "file:///data/t", "/data/t", "a b"),
        ("file:///data/t%20u/a%2520b", "file:///data/t%20u", "/data/t u", "a%20b"),
        ("s3://bucket/t/x%20y", "s3://bucket/t", None, "x y"),
        ("s3://bucket/t%20u/x", "s3://bucket/t%20u", None, "x"),
        ("s3://bucket/t/x%20y", "s3a://bucket/t", None, "x y"),
        ("s3a://bucket/t/x", "s3://bucket/t", None, "x"),
        ("s3n://bucket/t%20u/x", "s3a://bucket/t%20u", None, "x"),
        ("S3A://bucket/t/x", "s3://bucket/t", None, "x"),
        ("abfs://c@a.dfs.core.windows.net/t/x", "abfss://c@a.dfs.core.windows.net/t", None, "x"),
        ("abfss://c@a.dfs.core.windows.net/t/x", "abfs://c@a.dfs.core.windows.net/t", None, "x"),
        ("a..b/c..", "s3://bucket/t", None, "a..b/c.."),
    ],
)
def test_a_path_inside_the_root_is_relative_to_it(
    path: str, root_url: str, local_root: str | None, expected: str
) -> None:
    assert checked_data_path(path, root_url, local_root, allow_outside=False) == expected


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "%2Fetc/passwd", "file:///etc/passwd", ".//etc/passwd", "/data/tt/x", "s3://other/x", "/data/t"],
)
def test_a_path_outside_the_root_needs_leave(path: str) -> None:
    with pytest.raises(PathNotAllowed, match=r"outside the table's root.*allowPathsOutsideRoot") as caught:
        checked_data_path(path, "file:///data/t", "/data/t", allow_outside=False)
    assert "file:///data/t: " in str(caught.value)
    assert checked_data_path(path, "file:///data/t", "/data/t", allow_outside=True) == canonical_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "s3a://other/t/x",
        "s3a://bucket/tt/x",
        "s3a://bucket/t",
        "gs://bucket/t/x",
        "file://bucket/t/x",
        "/s3/bucket/t/x",
    ],
)
def test_another_scheme_of_the_store_leads_to_no_other_place(path: str) -> None:
    for root in ("s3://bucket/t", "s3n://bucket/t"):
        with pytest.raises(PathNotAllowed, match="outside the table's root"):
            checked_data_path(path, root, None, allow_outside=False)
    for path_ in ("s3a://bucket/t/../x", "s3a://bucket/t/a/%2e%2e/x", "s3a://bucket/t//etc/passwd", "s3a://bucket/t/"):
        with pytest.raises(PathNotAllowed, match=r"climbs|hides an absolute path|is not a file path"):
            checked_data_path(path_, "s3://bucket/t", None, allow_outside=True)


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "%2E%2E/x", "..%2Fx", "./../x", "/data/t/../x", "file:/data/t/%2e%2e/x", "a/.."],
)
@pytest.mark.parametrize("allow_outside", [False, True])
def test_a_path_that_climbs_out_is_never_followed(path: str, allow_outside: bool) -> None:
    with pytest.raises(PathNotAllowed, match="climbs out"):
        checked_data_path(path, "file:///data/t", "/data/t", allow_outside)


@pytest.mark.parametrize("path", ["/data/t//etc/passwd", "/data/t/file:/etc/passwd", "/data/t/s3://b/x"])
@pytest.mark.parametrize("allow_outside", [False, True])
def test_a_path_that_hides_an_absolute_one_behind_the_root_is_never_followed(path: str, allow_outside: bool) -> None:
    with pytest.raises(PathNotAllowed, match="hides an absolute path"):
        checked_data_path(path, "file:///data/t", "/data/t", allow_outside)
