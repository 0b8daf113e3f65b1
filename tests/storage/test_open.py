"""Paths, URLs and options that lead to a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument, StorageError, UnsupportedFeature
from slackwater.storage import open_store
from slackwater.storage.location import KNOWN_SCHEMES, Location, parse_location


def test_a_relative_path_starts_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("a b/../t%20")
    assert store.local_root == str(tmp_path / "t%20")
    assert store.root_url == f"file://{tmp_path}/t%2520"


def test_a_tilde_is_an_ordinary_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("~/t").local_root == str(tmp_path / "~" / "t")


@pytest.mark.parametrize(
    "url", ["file:/data/a%20b", "file:///data/a%20b", "file://localhost/data/a%20b", "FILE:///data//a b/", "/data/a b/"]
)
def test_every_form_of_a_local_table_is_the_same_root(url: str) -> None:
    store = open_store(url)
    assert store.local_root == "/data/a b"
    assert store.root_url == "file:///data/a%20b"


def test_a_path_object_is_taken_literally(tmp_path: Path) -> None:
    assert open_store(tmp_path / "a%20b").local_root == str(tmp_path / "a%20b")


@pytest.mark.parametrize("url", ["s3://b/t?x#y", "gs://b/t", "abfss://c@account.dfs.core.windows.net/t", "az://c/t"])
def test_question_marks_and_hashes_belong_to_the_key(url: str) -> None:
    assert parse_location(url).key == url.rsplit("/", 1)[1]


def test_a_windows_drive_or_a_colon_in_a_name_is_a_path() -> None:
    assert parse_location("a:/x").scheme == "file"
    assert parse_location("dir:name/x").scheme == "file"


@pytest.mark.parametrize(
    "table",
    ["", "file:t", "file://elsewhere/t", "s3:///t", "s3:/t", "s3://b/../c", "s3://b/%2e%2e/c", "s3://b/%00", "a\0b"],
)
def test_a_table_that_names_no_place_is_refused(table: str) -> None:
    with pytest.raises(InvalidArgument):
        open_store(table)


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_store("nowhere://namenode/t")
    assert "nowhere" in str(caught.value)
    assert all(scheme in str(caught.value) for scheme in KNOWN_SCHEMES)


@pytest.mark.parametrize("url", ["hdfs://namenode/t", "hdfs:///t", "viewfs://lake/t"])
def test_hadoop_without_its_jvm_is_answered_with_the_way_to_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.storage.open._hadoop", None)
    with pytest.raises(UnsupportedFeature, match="need the JVM of a classic Spark session"):
        open_store(url)


def test_the_names_of_one_hdfs_are_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.storage.location._learned", {"hdfs": "nn:8020"})
    assert {parse_location(url).url for url in ("hdfs:///t", "hdfs:/t", "HDFS://nn/t/", "hdfs://nn:8020/t")} == {
        "hdfs://nn/t"
    }
    assert parse_location("hdfs://nn:9000/t").url == "hdfs://nn:9000/t"
    assert parse_location("viewfs://nn:8020/t").url == "viewfs://nn:8020/t"


def test_one_memory_name_is_one_store_and_another_name_is_another() -> None:
    open_store("memory://open-test/t").put("a", b"1")
    assert open_store("memory://open-test").read("t/a") == b"1"
    assert open_store("memory://open-other/t").head("a") is None


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (
            "s3://b/t",
            {"AWS_ACCESS_KEY_ID": "k", "aws_secret_access_key": "s", "AWS_ALLOW_HTTP": "true", "timeout": "9s"},
        ),
        ("s3a://b/t", {"access_key_id": "k", "secret_access_key": "s", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}),
        ("s3://b/t", {"AWS_SKIP_SIGNATURE": "true", "AZURE_STORAGE_ACCOUNT_NAME": "other", "allow_http": "false"}),
        ("gs://b/t", {"google_skip_signature": "true", "AWS_REGION": "eu-west-1"}),
        ("az://c/t", {"AZURE_STORAGE_ACCOUNT_NAME": "account", "azure_storage_account_key": "a2V5"}),
        ("abfss://c@account.dfs.core.windows.net/t", {"azure_skip_signature": "true", "azure_allow_http": "true"}),
        ("abfs://c@account.dfs.core.windows.net/t", {"AZURE_SKIP_SIGNATURE": "true"}),
        ("adl://c/t", {"account_name": "account", "azure_skip_signature": "true"}),
        ("https://example.org/t", {"timeout": "5s"}),
        ("http://127.0.0.1:9/t", {"allow_http": "true"}),
    ],
)
def test_options_of_every_provider_reach_it_in_any_case(url: str, options: dict[str, str]) -> None:
    store = open_store(url, options)
    assert store.root_url == url
    assert store.local_root is None


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="aws_no_such_thing"):
        open_store("s3://b/t", {"AWS_NO_SUCH_THING": "1"})


@pytest.mark.parametrize("url", ["https://b.s3.eu-west-1.amazonaws.com/t", "https://account.blob.core.windows.net/c/t"])
def test_a_cloud_store_by_its_web_address_is_answered_with_the_form_to_use(url: str) -> None:
    with pytest.raises(InvalidArgument, match=r"(s3|abfss)://"):
        open_store(url)


def test_at_refuses_what_is_not_absolute(tmp_path: Path) -> None:
    for url in ("part-0.parquet", "a/b", "s3://bucket"):
        with pytest.raises(InvalidArgument):
            open_store(tmp_path).at(url)


def test_at_takes_a_plain_path_literally_and_a_url_encoded(tmp_path: Path) -> None:
    (tmp_path / "a%20b").write_bytes(b"literal")
    (tmp_path / "a b").write_bytes(b"decoded")
    store = open_store("memory://open-test/t")
    for url, expected in ((f"{tmp_path}/a%20b", b"literal"), (f"file:{tmp_path}/a%20b", b"decoded")):
        other, path = store.at(url)
        assert other.read(path) == expected


segment = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda text: text not in (".", "..")
)


@given(st.sampled_from(["s3", "gs", "memory", "file"]), st.lists(segment, max_size=4).map("/".join))
def test_the_url_of_a_location_leads_back_to_it(scheme: str, key: str) -> None:
    location = Location(scheme, "" if scheme == "file" else "bucket", key)
    assert parse_location(location.url) == location


@pytest.mark.parametrize("operation", ["head", "read", "list_from"])
def test_a_panic_of_obstore_is_a_storage_error(operation: str) -> None:
    """The host name ends like an IP address and is none, over which obstore's client stumbles."""
    options = {"aws_endpoint": "http://b.127.0.0.1:9", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    with pytest.raises(StorageError, match=r"s3://b/t.* failed"):
        getattr(open_store("s3://b/t", options), operation)("x")


def test_an_interrupt_while_obstore_works_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://interrupted/t")

    def interrupted(_path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_backend", type("Backend", (), {"head": staticmethod(interrupted)}))
    with pytest.raises(KeyboardInterrupt):
        store.head("x")
