"""No message that leaves the process carries a secret of a URL."""

from __future__ import annotations

import inspect

import pytest

from slackwater import errors
from slackwater.errors import CommitOwnerUnavailable, InvalidArgument, SlackwaterError
from slackwater.html.redaction import setting_without_secrets, without_secrets
from slackwater.owner.database.database import Database
from slackwater.owner.served.wire.errors import error_to_json

SECRETS = ("s3cr3t", "h1dden")
URLS = [
    "postgresql://s3cr3t:h1dden@db.example:5432/owner?password=h1dden&sslpassword=s3cr3t",
    "postgresql+psycopg://user:h1d/s3cr3t@db.example/owner",
    "https://db.example/v1?sig=s3cr3t#h1dden",
    "s3://s3cr3t:h1dden@bucket/table",
    "postgresql://db.example/owner?user=s3cr3t&password=h1dden",
]
ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, SlackwaterError)]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("around", ["{}", "cannot reach {}: try again", "({})", "at '{}', or \"{}\"."])
def test_a_url_in_a_text_keeps_host_and_path_alone(url: str, around: str) -> None:
    shown = without_secrets(around.format(url, url))
    assert not any(secret in shown for secret in SECRETS)
    assert "://" in shown
    assert shown.startswith(around.partition("{")[0])


def test_what_ends_a_sentence_after_a_url_stays() -> None:
    assert without_secrets("(see https://db.example/v1?sig=s3cr3t).") == "(see https://db.example/v1."
    assert without_secrets("at https://db.example/v1#s3cr3t, or") == "at https://db.example/v1, or"
    assert without_secrets("at https://db.example/v1?sig=s3cr3t or") == "at https://db.example/v1 or"


@pytest.mark.parametrize(
    "text",
    [
        "connection failed: host=db password=s3cr3t port=1",
        "user='u' password='s3cr3t h1dden'",
        '{"password": "s3cr3t"}',
        "aws_secret_access_key=s3cr3t",
        "Authorization: Bearer s3cr3ts3cr3t",
    ],
)
def test_words_that_drivers_repeat_are_hidden(text: str) -> None:
    assert not any(secret in without_secrets(text) for secret in SECRETS)


@pytest.mark.parametrize(
    "text",
    [
        "the request has no token. Send it as 'Authorization: Bearer …'",
        "s3://bucket/flights@v3 is at version 5; https://host:8080/v1/tables is its owner",
        "file:///lake/a%20b/_delta_log/00000000000000000001.json: line 1 is no JSON",
        "sqlite:////data/owner.db does not answer",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("url", URLS)
def test_no_error_tells_a_secret_to_a_client(kind: type[SlackwaterError], url: str) -> None:
    message = error_to_json(kind(f"something at {url} failed"))["message"]
    assert not any(secret in message for secret in SECRETS)


def test_a_database_that_does_not_answer_is_named_without_its_secrets() -> None:
    url = "postgresql://s3cr3t:h1dden@127.0.0.1:1/owner?passfile=/h1dden"
    with pytest.raises(CommitOwnerUnavailable) as raised:
        Database(url, patience_s=0)
    assert "127.0.0.1:1/owner" in str(raised.value)
    assert not any(secret in str(raised.value) for secret in SECRETS)


def test_a_database_url_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as raised:
        Database("postgresql//s3cr3t:h1dden@db/owner")
    assert not any(secret in str(raised.value) for secret in SECRETS)


@pytest.mark.parametrize(
    "key",
    ["fs.s3a.secret.key", "aws_access_key_id", "azure_storage_sas", "my.Token", "fs.azure.account.key.x", "apiKey"],
)
def test_the_value_of_a_setting_that_is_called_a_secret_is_not_shown(key: str) -> None:
    assert setting_without_secrets(key, "hunter2") == "***"


def test_the_value_of_another_setting_is_shown_but_for_secrets_in_it() -> None:
    assert setting_without_secrets("delta.appendOnly", "true") == "true"
    assert setting_without_secrets("home", "https://me:hunter2@host/x?sig=1") == "https://host/x"
