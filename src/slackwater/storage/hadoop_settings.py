"""Translates Hadoop settings of object stores to storage options, so that a Spark session's credentials serve the log.

Source: the public documentation of Hadoop's connectors (hadoop-aws "S3A", hadoop-azure "ABFS", the GCS connector).
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from slackwater.storage.conditional_puts import is_amazons
from slackwater.storage.location import AZURE_SCHEMES, GCS_SCHEMES, S3_SCHEMES, Location

_S3 = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
}
_GCS = {
    "auth.service.account.json.keyfile": "google_service_account",
    "storage.root.url": "google_base_url",
}
_AZURE = {
    "account.key": "azure_storage_account_key",
    "sas.fixed.token": "azure_storage_sas_token",
    "account.oauth2.client.id": "azure_storage_client_id",
    "account.oauth2.client.secret": "azure_storage_client_secret",
}
_SAME = {
    "endpoint_url": "endpoint",
    "default_region": "region",
    "token": "session_token",
    "service_account_path": "service_account",
    "sas_key": "sas_token",
    "access_key": "account_key",
    "master_key": "account_key",
}

Setting: TypeAlias = Callable[[str], str | None]
"""The value set by the user for a key; None or '' if unset, even if Hadoop has a default."""

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_AWS_ENDPOINT = "s3.amazonaws.com"


def storage_options_of(setting: Setting, location: Location) -> dict[str, str]:
    """Translate `setting` (`fs.s3a.…`, `fs.gs.…`, `fs.azure.…`) for the store of `location` to options of `open_store`.

    Settings of one bucket or account override general settings. Settings without a meaning for the log are left out.
    """
    if location.scheme in S3_SCHEMES:
        return dict(_of_s3(setting, location.authority))
    if location.scheme in GCS_SCHEMES:
        return dict(_of_gcs(setting))
    if location.scheme in AZURE_SCHEMES:
        return dict(_of_azure(setting, location.authority))
    return {}


def merged_options(options: Mapping[str, str], first: Mapping[str, str]) -> dict[str, str]:
    """Merge `options` with the overriding `first`.

    Stores reject two names of one option, such as `region` and `aws_region`. If `first` has an access key, a session
    token of `options` is dropped.
    """
    given = {_plain(key) for key in first}
    if "access_key_id" in given:
        # Parts of other credentials do not belong to these keys.
        given |= {"session_token", "token", "skip_signature"}
    return {**{key: value for key, value in options.items() if _plain(key) not in given}, **first}


def _plain(option: str) -> str:
    name = option.lower()
    for prefix in ("aws_", "google_", "azure_storage_", "azure_"):
        name = name.removeprefix(prefix)
    return _SAME.get(name, name)


def _of_s3(setting: Setting, bucket: str) -> Iterator[tuple[str, str]]:
    def told(name: str, default: str = "") -> str:
        return setting(f"fs.s3a.bucket.{bucket}.{name}") or setting(f"fs.s3a.{name}") or default

    yield from ((option, told(name)) for name, option in _S3.items() if told(name))
    if _ANONYMOUS in told("aws.credentials.provider"):
        yield "aws_skip_signature", "true"
    endpoint = told("endpoint", _AWS_ENDPOINT)
    if endpoint == _AWS_ENDPOINT:
        return
    scheme, _, host = endpoint.rpartition("://")
    scheme = scheme or ("http" if told("connection.ssl.enabled").lower() == "false" else "https")
    if not _is_path_style(host, told("path.style.access")):
        # obstore uses the endpoint unchanged, so it must contain the bucket.
        host = f"{bucket}.{host}"
        yield "aws_virtual_hosted_style_request", "true"
    yield "aws_endpoint", f"{scheme}://{host}"
    if scheme == "http":
        yield "aws_allow_http", "true"


def _is_path_style(host: str, chosen: str) -> bool:
    """Return whether requests name the bucket in their path, which is obstore's default.

    Host names of Amazon, and a user's setting, move the bucket to the front of the host name. IP addresses are always
    path style.
    """
    name = urlsplit(f"//{host}").hostname or ""
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return chosen.lower() == "true" or (not chosen and not is_amazons(name))


def _of_gcs(setting: Setting) -> Iterator[tuple[str, str]]:
    yield from ((option, value) for name, option in _GCS.items() if (value := setting(f"fs.gs.{name}")))
    if (setting("fs.gs.auth.type") or "").upper() == "UNAUTHENTICATED":
        yield "google_skip_signature", "true"


def _of_azure(setting: Setting, authority: str) -> Iterator[tuple[str, str]]:
    account = authority.rpartition("@")[2]

    def told(name: str) -> str | None:
        return setting(f"fs.azure.{name}.{account}") or setting(f"fs.azure.{name}")

    yield from ((option, value) for name, option in _AZURE.items() if (value := told(name)))
    # https://login.microsoftonline.com/<tenant>/oauth2/token
    login = (told("account.oauth2.client.endpoint") or "").partition("://")[2].split("/")
    if len(login) > 1:
        yield "azure_storage_tenant_id", login[1]
