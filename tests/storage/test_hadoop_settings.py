"""Hadoop's settings of object stores, as options of ours."""

from __future__ import annotations

import pytest

from slackwater.storage.hadoop_settings import merged_options, storage_options_of
from slackwater.storage.location import parse_location
from slackwater.storage.open import open_store

KEYS = {"fs.s3a.access.key": "id", "fs.s3a.secret.key": "secret"}
OURS = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
ENDPOINT = {"fs.s3a.endpoint": "http://here:9000", "fs.s3a.path.style.access": "true"}
ACCOUNT = "lake.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        (KEYS, OURS),
        ({**KEYS, "fs.s3a.session.token": "t"}, {**OURS, "aws_session_token": "t"}),
        ({**KEYS, "fs.s3a.bucket.b.access.key": "its own"}, {**OURS, "aws_access_key_id": "its own"}),
        ({**KEYS, "fs.s3a.bucket.other.access.key": "of another"}, OURS),
        ({"fs.s3a.endpoint.region": "eu-west-1"}, {"aws_region": "eu-west-1"}),
        ({"fs.s3a.endpoint": "s3.amazonaws.com"}, {}),
        (ENDPOINT, {"aws_endpoint": "http://here:9000", "aws_allow_http": "true"}),
        ({**ENDPOINT, "fs.s3a.endpoint": "here:9000"}, {"aws_endpoint": "https://here:9000"}),
        (
            {**ENDPOINT, "fs.s3a.endpoint": "here:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {"aws_endpoint": "http://here:9000", "aws_allow_http": "true"},
        ),
        (
            {"fs.s3a.endpoint": "https://s3.eu-west-1.amazonaws.com"},
            {"aws_endpoint": "https://b.s3.eu-west-1.amazonaws.com", "aws_virtual_hosted_style_request": "true"},
        ),
        ({"fs.s3a.endpoint": "http://here:9000"}, {"aws_endpoint": "http://here:9000", "aws_allow_http": "true"}),
        (
            {"fs.s3a.endpoint": "https://here:9000", "fs.s3a.path.style.access": "false"},
            {"aws_endpoint": "https://b.here:9000", "aws_virtual_hosted_style_request": "true"},
        ),
        (
            {"fs.s3a.endpoint": "https://127.0.0.1:9000", "fs.s3a.path.style.access": "false"},
            {"aws_endpoint": "https://127.0.0.1:9000"},
        ),
        ({"fs.s3a.endpoint": "https://[::1]:9000"}, {"aws_endpoint": "https://[::1]:9000"}),
        (
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
            {"aws_skip_signature": "true"},
        ),
    ],
)
@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_s3(settings: dict[str, str], expected: dict[str, str], scheme: str) -> None:
    assert storage_options_of(settings.get, parse_location(f"{scheme}://b/t")) == expected


def test_azure() -> None:
    place = parse_location(f"abfss://c@{ACCOUNT}/t")
    assert storage_options_of({f"fs.azure.account.key.{ACCOUNT}": "a2V5"}.get, place) == {
        "azure_storage_account_key": "a2V5"
    }
    assert storage_options_of({"fs.azure.account.key.other.dfs.core.windows.net": "a2V5"}.get, place) == {}
    signed_in = {
        f"fs.azure.account.oauth2.client.id.{ACCOUNT}": "id",
        "fs.azure.account.oauth2.client.secret": "secret",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
    }
    assert storage_options_of(signed_in.get, place) == {
        "azure_storage_client_id": "id",
        "azure_storage_client_secret": "secret",
        "azure_storage_tenant_id": "tenant",
    }
    assert storage_options_of({f"fs.azure.sas.fixed.token.{ACCOUNT}": "sig=x"}.get, place) == {
        "azure_storage_sas_token": "sig=x"
    }


def test_google_and_places_that_have_no_credentials() -> None:
    settings = {"fs.gs.auth.service.account.json.keyfile": "/key.json", "fs.gs.auth.type": "UNAUTHENTICATED", **KEYS}
    assert storage_options_of(settings.get, parse_location("gs://b/t")) == {
        "google_service_account": "/key.json",
        "google_skip_signature": "true",
    }
    assert storage_options_of(settings.get, parse_location("/data/t")) == {}


@pytest.mark.parametrize("url", ["s3a://b/t", "gs://b/t", f"abfss://c@{ACCOUNT}/t"])
def test_the_stores_know_the_options(url: str) -> None:
    settings = {
        **KEYS, **ENDPOINT, "fs.s3a.session.token": "t", "fs.s3a.endpoint.region": "r",
        "fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": "https://here/",
        f"fs.azure.account.key.{ACCOUNT}": "a2V5",
    }  # fmt: skip
    found = storage_options_of(settings.get, parse_location(url))
    assert found
    assert open_store(url, found).root_url == url


def test_what_is_given_for_one_table_goes_first_by_whatever_name() -> None:
    session = {"aws_endpoint": "http://session", "aws_region": "there", "aws_access_key_id": "id"}
    given = {"AWS_ENDPOINT_URL": "http://table", "region": "here"}
    found = merged_options(session, given)
    assert found == {"aws_access_key_id": "id", **given}
    assert open_store("s3://b/t", {**found, "aws_secret_access_key": "secret", "allow_http": "true"})


def test_keys_of_one_origin_are_not_joined_by_parts_of_another_ones() -> None:
    session = {
        "aws_access_key_id": "s",
        "aws_session_token": "of the session",
        "aws_skip_signature": "true",
        "region": "r",
    }
    keys = {"AWS_ACCESS_KEY_ID": "k", "aws_secret_access_key": "secret"}
    assert merged_options(session, keys) == {"region": "r", **keys}
    assert merged_options(session, {"region": "other"}) == {**session, "region": "other"}
    assert merged_options({"token": "t"}, {"access_key_id": "k"}) == {"access_key_id": "k"}
