"""Which stores are asked whether they keep the condition of a put, and what their answers mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.storage import ObjectStore, conditional_puts, open_store
from slackwater.storage.conditional_puts import (
    copy_assuming_single_writer,
    custom_endpoint,
    put_assuming_single_writer,
    require_conditional_puts,
)
from slackwater.storage.store import ChunkedBytes
from tests.transaction.tables import StepStore, new_store

_BUCKET = "https://minio.example, bucket b"


@pytest.fixture(autouse=True)
def nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_puts, "_proven", set())


class Answering:
    """A store that answers each put as the next of `answers` does: an error, or None for one that lands."""

    def __init__(self, *answers: Exception | None) -> None:
        self.store = new_store()
        self.root_url = self.store.root_url
        self.answers = list(answers)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        self.store.put(path, bytes(data))

    def delete(self, paths: list[str]) -> None:
        self.store.delete(paths)


_THERE, _LOST, _DENIED = ObjectExists("there"), StorageError("no answer"), StorageRefused("denied")


def probe(*answers: Exception | None) -> Answering:
    found = Answering(*answers)
    try:
        require_conditional_puts(found, "_delta_log", _BUCKET)  # type: ignore[arg-type]
    finally:
        assert found.store.list_from("", recursive=True) == []
    assert found.answers == []
    return found


@pytest.mark.parametrize("url", ["http://localhost:9000", "minio.example", "https://s3.amazonaws.com.example.org"])
def test_an_endpoint_that_is_not_amazons_is_a_lookalike(url: str) -> None:
    for name in ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3", "endpoint", "endpoint_url"):
        assert custom_endpoint({name: url}, {}).removeprefix("//") == url
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        assert custom_endpoint({}, {name: url}).removeprefix("//") == url


def test_amazons_own_endpoints_are_not_asked() -> None:
    for host in (
        "s3.eu-west-1.amazonaws.com",
        "b.s3.dualstack.us-east-1.amazonaws.com",
        "s3.cn-north-1.amazonaws.com.cn",
    ):
        for url in (host, f"https://{host}", f"https://{host}:443/"):
            assert custom_endpoint({"aws_endpoint_url": url}, {"AWS_ENDPOINT_URL": "http://localhost:9000"}) == ""
    assert custom_endpoint({"aws_region": "eu-west-1"}, {}) == ""


def test_an_endpoint_is_named_without_who_may_use_it() -> None:
    assert (
        custom_endpoint({"aws_endpoint": "https://me:word@minio.example:9000/s3/?x=y"}, {})
        == "https://minio.example:9000/s3"
    )


def test_a_store_that_keeps_what_is_there_is_asked_once() -> None:
    probe(None, _THERE)
    probe()


def test_a_store_that_replaces_what_is_there_is_refused_with_what_to_do() -> None:
    for _ in range(2):
        with pytest.raises(StorageRefused, match=r"https://minio.example, bucket b ignores the condition .*a lake"):
            probe(None, None)
    with pytest.raises(StorageRefused, match="ignores"):
        probe(_LOST, None, _LOST, None)


def test_an_answer_that_was_lost_tells_nothing() -> None:
    probe(_LOST, None, _THERE)


def test_an_object_of_nobody_else_that_is_there_already_is_our_own() -> None:
    # The store has repeated a request whose answer was lost, and kept the first one.
    probe(_LOST, _THERE)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [([_DENIED], StorageRefused), ([_LOST] * 4, StorageError), ([None, *[_LOST] * 3], StorageError)],
)
def test_a_store_that_does_not_tell_is_asked_again(answers: list[Exception | None], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"denied|no answer"):
        probe(*answers)
    probe(None, _THERE)


def unconditional() -> StorageRefused:
    found = StorageRefused("no such condition")
    found.knows_no_condition = True
    return found


class Unconditional(StepStore):
    """A store that refuses the condition of a put."""

    def __init__(self, store: ObjectStore, error: StorageRefused) -> None:
        super().__init__(store, lambda _o, _p: None)
        self._error = error

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        raise self._error

    def copy_if_absent(self, src: str, dst: str) -> None:
        raise self._error


def test_one_writer_alone_puts_without_a_condition_where_nothing_is() -> None:
    store: Any = Unconditional(new_store(), unconditional())
    put_assuming_single_writer(store, "a", b"1")
    copy_assuming_single_writer(store, "a", "b")
    calls: list[Callable[[], object]] = [
        lambda: put_assuming_single_writer(store, "a", b"2"),
        lambda: copy_assuming_single_writer(store, "a", "b"),
    ]
    for again in calls:
        with pytest.raises(ObjectExists):
            again()
    assert (store.read("a"), store.read("b")) == (b"1", b"1")
    with pytest.raises(ObjectNotFound):
        copy_assuming_single_writer(store, "c", "d")


def test_one_writer_alone_gets_no_other_refusal_around() -> None:
    store: Any = Unconditional(new_store(), _DENIED)
    store.put("a", b"1")
    calls: list[Callable[[], object]] = [
        lambda: put_assuming_single_writer(store, "b", b"1"),
        lambda: copy_assuming_single_writer(store, "a", "b"),
    ]
    for denied in calls:
        with pytest.raises(StorageRefused, match="denied"):
            denied()
    assert store.head("b") is None


@pytest.mark.parametrize("open_one", [lambda: open_store("memory://probe/t"), new_store])
def test_other_stores_are_not_asked(open_one: Callable[[], ObjectStore]) -> None:
    store = open_one()
    store.require_conditional_puts("_delta_log")
    assert store.list_from("", recursive=True) == []
