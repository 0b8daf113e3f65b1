"""What a store answers that will not serve a request: one sentence, which says what to do and no secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from slackwater.errors import StorageError, StorageRefused
from slackwater.storage import ObjectStore, open_store
from tests.contract.s3_server import BUCKET, answering

_SIGNED = "FwoGZXIvYXdzEXAMPLETOKEN"
_CALLS: list[tuple[str, Callable[[ObjectStore], object]]] = [
    ("create", lambda store: store.put_if_absent("a", b"")),
    ("overwrite", lambda store: store.put("a", b"")),
    ("read", lambda store: store.read("a")),
    ("list", lambda store: store.list_from("_delta_log")),
    ("list", lambda store: store.list_from("_delta_log", "_delta_log/1")),
]


def s3_says(code: str, message: str, more: str = "") -> str:
    found = f"<Code>{code}</Code><Message>{message}</Message>{more}<RequestId>4442587FB7D0A2F9</RequestId>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{found}</Error>'


_ANSWERS = {
    "expired": (400, s3_says("ExpiredToken", "The provided token has expired."), "have expired. Get new credentials"),
    "unknown key": (
        403,
        s3_says("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
        "rejects the credentials. Check the key, the secret and the session token",
    ),
    "wrong secret": (
        403,
        s3_says(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided.",
            f"<CanonicalRequest>PUT\n/a\n\nx-amz-security-token:{_SIGNED}</CanonicalRequest>",
        ),
        "rejects the credentials",
    ),
    "wrong region": (
        400,
        s3_says("AuthorizationHeaderMalformed", "the region is wrong; expecting &#39;eu-west-1&#39;"),
        "is in another region. Set this region as aws_region.*expecting 'eu-west-1'",
    ),
    "other endpoint": (301, s3_says("PermanentRedirect", "must be addressed using another endpoint"), "another region"),
    "clock": (403, s3_says("RequestTimeTooSkewed", "The difference is too large."), "differ too much. Set the clock"),
    "no right": (403, s3_says("AccessDenied", "Access Denied"), r"check the credentials and their rights"),
    "no bucket": (404, s3_says("NoSuchBucket", "The specified bucket does not exist"), "bucket s3://tables does not"),
}  # fmt: skip


@pytest.mark.parametrize("answer", _ANSWERS)
def test_an_answer_of_s3_is_one_sentence_that_says_what_to_do(answer: str) -> None:
    status, body, expected = _ANSWERS[answer]
    with answering(status, body) as options:
        store = open_store(f"s3://{BUCKET}/t", {**options, "aws_session_token": _SIGNED})
        for name, call in _CALLS:
            with pytest.raises(StorageRefused, match=f"{name} s3://{BUCKET}/t.*{expected}") as caught:
                call(store)
            shown = "".join(traceback.format_exception(caught.value))
            assert [sign for sign in (_SIGNED, "Debug source", "<Code>") if sign in shown] == []
            assert "\n" not in str(caught.value)


def test_azure_is_told_with_its_own_codes_and_no_signature_of_an_url_is_shown() -> None:
    body = s3_says(
        "AuthenticationFailed",
        "Server failed to authenticate the request.\nRequestId:ba4b2b1f\nTime:2026-11-22T23:00:00Z",
        "<AuthenticationErrorDetail>String to sign used was c2VjcmV0</AuthenticationErrorDetail>",
    )
    sas = "sv=2021-08-06&sp=rwdl&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D"
    for status, answer in ((403, body), (403, ""), (418, "<html>?sig=c2VjcmV0LXNpZ25hdHVyZQ</html>")):
        with answering(status, answer) as server:
            settings = {"azure_storage_sas_token": sas, "azure_allow_http": "true"}
            store = open_store(
                "abfss://c@account.dfs.core.windows.net/t",
                {**settings, "azure_endpoint": server["AWS_ENDPOINT_URL"]},
            )
            with pytest.raises(StorageError) as caught:
                store.read("a")
        shown = "".join(traceback.format_exception(caught.value))
        assert "c2VjcmV0" not in shown
        assert ("heck the" in shown) == (status == 403)


def test_a_server_that_is_not_there_is_told_with_what_to_check() -> None:
    with answering(200) as options:
        pass
    store = open_store(f"s3://{BUCKET}/t", options)
    with pytest.raises(StorageError, match=r"is not reachable .*Check the endpoint"):
        store.list_from("")


def test_credentials_that_are_nowhere_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    # What asks for the machine's role is answered here, as where the machine is in no cloud.
    with answering(404) as options:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
        found = {key: value for key, value in options.items() if "key" not in key.lower()}
        found["aws_metadata_endpoint"] = options["AWS_ENDPOINT_URL"]
        with pytest.raises(StorageRefused, match=r"credentials are missing\. Set them by options"):
            open_store(f"s3://{BUCKET}/t", found).read("a")
