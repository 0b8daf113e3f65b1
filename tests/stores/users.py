"""An S3 server that checks who asks, and what they may do: users with policies and storage options of their own."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.contract.s3_server import BUCKET, s3_server

# Before anybody is checked, the server only looks for which service is meant.
_IAM = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=any"
_ALL = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
_LOGS = f"arn:aws:s3:::{BUCKET}/*/_delta_log/*"
_POLICIES = {
    "owner": [_ALL],
    "reader": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}],
    "without_log": [_ALL, {"Effect": "Deny", "Action": "s3:PutObject", "Resource": _LOGS}],
}


@dataclass(frozen=True, slots=True)
class Users:
    """Storage options of each: `without_log` may write data, but no commits."""

    owner: Mapping[str, str]
    reader: Mapping[str, str]
    without_log: Mapping[str, str]


@contextlib.contextmanager
def checked_s3() -> Iterator[Users]:
    """A server with BUCKET where each request must be signed by one who may make it."""
    with s3_server() as options:
        endpoint = options["AWS_ENDPOINT_URL"]
        users = {name: {**options, **_user(endpoint, name)} for name in Users.__dataclass_fields__}
        _post(f"{endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        yield Users(**users)


def _user(endpoint: str, name: str) -> dict[str, str]:
    policy = json.dumps({"Version": "2012-10-17", "Statement": _POLICIES[name]})
    _iam(endpoint, "CreateUser", UserName=name)
    _iam(endpoint, "PutUserPolicy", UserName=name, PolicyName="all", PolicyDocument=policy)
    answer = _iam(endpoint, "CreateAccessKey", UserName=name)
    names = {"AWS_ACCESS_KEY_ID": "AccessKeyId", "aws_secret_access_key": "SecretAccessKey"}
    found = {option: re.search(f"<{element}>(.*?)</{element}>", answer) for option, element in names.items()}
    return {option: match[1] for option, match in found.items() if match}


def _iam(endpoint: str, action: str, **parameters: str) -> str:
    form = urllib.parse.urlencode({"Action": action, "Version": "2010-05-08", **parameters})
    return _post(endpoint, form.encode(), {"Authorization": _IAM})


def _post(url: str, data: bytes, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - our own server
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return str(answer.read(), "utf-8")
