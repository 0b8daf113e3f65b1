"""Tables that name another table, and features that are refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slackwater.errors import UnsupportedFeature
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.protocol_upgrade import protocol_for, with_features
from slackwater.protocol.features.table_features import validate_readable, validate_writable
from tests.log.tables import TableLog, add, metadata, protocol

BOTH, WRITERS = "redirectReaderWriter-preview", "redirectWriterOnly-preview"
TARGET = "s3://bucket/tables/new"


def redirect(state: str, spec: Any = None, **fields: Any) -> str:
    spec = json.dumps({"sourcePath": "/old", "destPath": TARGET}) if spec is None else spec
    return json.dumps({"type": "PathBasedRedirect", "state": state, "spec": spec, **fields})


def redirected(feature: str, text: str | None, *readers: str) -> TableLog:
    log = TableLog()
    configuration = {} if text is None else {f"delta.{feature}": text}
    log.commit(0, protocol(3, 7, list(readers), [feature]), metadata(configuration), add("a"))
    return log


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("REDIRECT-READY", r"moved to s3://bucket/tables/new \(delta.redirectReaderWriter-preview, state .*\)\. Read"),
        ("ENABLE-REDIRECT-IN-PROGRESS", "the redirection of the table to .*new is not complete .*Retry later"),
        ("DROP-REDIRECT-IN-PROGRESS", "the redirection of the table to .*new is not complete .*Retry later"),
    ],
)
def test_reads_of_a_redirected_table_name_the_target_and_the_state(state: str, message: str) -> None:
    log = redirected(BOTH, redirect(state), BOTH)
    with pytest.raises(UnsupportedFeature, match=message) as caught:
        log.load()
    assert state in str(caught.value)
    assert caught.value.error_class == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"


def test_the_target_is_found_in_a_checkpoint_too() -> None:
    log = TableLog().create(add("a"))
    write_checkpoint(log.load(), 0)
    text = redirect("REDIRECT-READY", {"redirectDest": "/new"})
    log.multipart(1, [protocol(3, 7, [BOTH], [BOTH]), metadata({f"delta.{BOTH}": text})], [add("a")])
    with pytest.raises(UnsupportedFeature, match="moved to /new"):
        log.load(1)


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", redirect("REDIRECT-READY", "not json"), redirect("REDIRECT-READY", {"destPath": 5})],
)
def test_a_redirect_without_a_target_is_refused_with_its_property(text: str | None) -> None:
    with pytest.raises(UnsupportedFeature, match=r"named by its property delta\.redirectReaderWriter-preview"):
        redirected(BOTH, text, BOTH).load()


def test_a_redirect_of_writers_is_readable_and_not_writable() -> None:
    snapshot = redirected(WRITERS, redirect("REDIRECT-READY")).load()
    assert snapshot.live_files(["path"])["path"].to_pylist() == ["a"]
    with pytest.raises(UnsupportedFeature, match=r"moved to s3://bucket/tables/new .*Write that table instead"):
        snapshot.configuration.require_writable("memory://t")


def test_the_message_hides_secrets_of_the_target() -> None:
    spec = {"destPath": "https://user:hidden@host/t?sig=hidden"}
    with pytest.raises(UnsupportedFeature) as caught:
        redirected(BOTH, redirect("REDIRECT-READY", spec), BOTH).load()
    assert "hidden" not in str(caught.value)


# Features refused with a reason.

NOT_YET = (
    "adaptiveMetadata-preview",
    "collations-dev",
    "intervals",
    "timestampNanos",
)


@pytest.mark.parametrize("name", [*NOT_YET, "coordinatedCommits-preview"])
def test_features_outside_the_protocol_are_refused_with_a_reason(name: str) -> None:
    reason = rf"{name} \w+ .*\. It is not in the Delta protocol{' yet' if name in NOT_YET else ''}\. Upgrade"
    with pytest.raises(UnsupportedFeature, match=f"writer feature {name}, which .*{reason}"):
        validate_writable(Protocol(1, 7, None, (name,)), "memory://t")
    with pytest.raises(UnsupportedFeature, match=f"reader feature {name}, which .*{reason}"):
        validate_readable(Protocol(3, 7, (name,), (name,)), "memory://t")
    assert validate_readable(Protocol(3, 7, (), (name,)), "memory://t") is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("name", ["intervals", WRITERS])
def test_features_outside_the_protocol_are_not_added(name: str) -> None:
    with pytest.raises(UnsupportedFeature, match="not in the Delta protocol yet"):
        protocol_for([name])
    with pytest.raises(UnsupportedFeature, match="not in the Delta protocol yet"):
        with_features(Protocol(1, 2), [name])
