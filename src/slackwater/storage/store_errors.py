"""Errors of a remote store as one message: the failure, the location and the remedy, without secrets.

obstore returns the response as text only: the status, and a body with an error code of S3, Google's store or Azure. The
rest of the text (signed URLs, signed headers) may contain secrets, and is left out.

Source: S3 "Error responses", Azure "Common REST API error codes", Cloud Storage XML API "HTTP status and error codes".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.sax.saxutils import unescape

_STATUS = re.compile(r"status code: (\d{3})")
_RETRIED = re.compile(r"after [1-9]\d* retries")
_BODY = re.compile(r"(status code: \d{3}[^:<]*):?\s*<.*", re.DOTALL)
# Error response to a batch, already parsed by obstore.
_BATCH = re.compile(r": ([^:]*) \(code: (\w+)\)")
_QUERY = re.compile(r"\?[^\s\"')]+")
_USER = re.compile(r"//[^/\s@]*:[^/\s@]*@")
# Addresses where cloud machines request credentials of their role.
_ROLE = re.compile(
    r"169\.254\.|metadata\.google\.internal|/computeMetadata/|/latest/api/token|fd00:ec2::", re.IGNORECASE
)
_MOST = 400
_NOT_IMPLEMENTED = 501

_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
_WRONG_KEYS = "the store rejects the credentials. Check the key, the secret and the session token"
_EXPIRED = "the credentials have expired. Get new credentials"
_WRONG_REGION = (
    "the bucket is in another region. Set this region as aws_region, AWS_REGION or fs.s3a.endpoint.region, and an "
    "endpoint of this region"
)
_CLOCK = "the clocks of this machine and of the store differ too much. Set the clock"
_NO_RIGHT = "check the credentials and their rights"
_NO_CREDENTIALS = (
    "credentials are missing. Set them by options, by the session's settings (fs.s3a., fs.azure., fs.gs.) or by "
    "environment variables"
)
_NO_ROLE = "this machine has no role in a cloud either"
_REMEDIES = {
    code: remedy
    for codes, remedy in (
        ("InvalidAccessKeyId SignatureDoesNotMatch InvalidToken XAdminUserNotFound AuthenticationFailed", _WRONG_KEYS),
        ("InvalidAuthenticationInfo InvalidSecurity NoAuthenticationInformation", _WRONG_KEYS),
        ("ExpiredToken ExpiredTokenException TokenRefreshRequired", _EXPIRED),
        ("AuthorizationHeaderMalformed PermanentRedirect IllegalLocationConstraintException", _WRONG_REGION),
        ("RequestTimeTooSkewed RequestExpired", _CLOCK),
        ("AccessDenied AllAccessDisabled AuthorizationFailure AuthorizationPermissionMismatch", _NO_RIGHT),
        ("InsufficientAccountPermissions AccountProblem UserProjectAccountProblem", _NO_RIGHT),
    )
    for code in codes.split()
}


@dataclass(frozen=True, slots=True)
class StoreErrorResponse:
    """A store's error response: `status`, `code` and `message` if present. `was_retried` if earlier attempts failed."""

    status: int | None
    code: str
    message: str
    was_retried: bool
    text: str

    @property
    def names_no_bucket(self) -> bool:
        """Return whether the response reports a missing bucket or container."""
        return self.code in _NO_BUCKET

    @property
    def is_not_implemented(self) -> bool:
        """Return whether the store does not implement the request."""
        return self.status == _NOT_IMPLEMENTED or self.code == "NotImplemented"

    @property
    def remedy(self) -> str | None:
        """Remedy for a request rejected by the store; None for any other failure."""
        if _ROLE.search(self.text):
            return _NO_CREDENTIALS
        if self.code in _REMEDIES:
            return _REMEDIES[self.code]
        if "redirect without LOCATION" in self.text:
            return _WRONG_REGION
        return _NO_RIGHT if self.status in (401, 403) else None

    @property
    def was_reached(self) -> bool:
        """Return whether the store has sent a response."""
        return self.status is not None or "error sending request" not in self.text

    def __str__(self) -> str:
        if _ROLE.search(self.text):
            return _NO_ROLE
        if self.code:
            return _short(f"{self.code}: {self.message}" if self.message else self.code)
        bare = _BODY.sub(r"\1", self.text.partition("\n\nDebug source")[0])
        return _short(_USER.sub("//", _QUERY.sub("", bare)))


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of obstore, which PyO3 derives from BaseException, in no public class."""
    return type(error).__name__ == "PanicException"


def answer_of(error: BaseException) -> StoreErrorResponse:
    """Parse a store's response out of an exception of obstore."""
    text = str(error)
    status = _STATUS.search(text)
    code, message = _element(text, "Code"), _element(text, "Message")
    if batch := _BATCH.search(text):
        message, code = batch.groups()
    return StoreErrorResponse(
        int(status[1]) if status else None, code, message, _RETRIED.search(text) is not None, text
    )


def _element(text: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    # Azure appends the request id and the time in further lines.
    return unescape(found[1], {"&#34;": '"', "&#39;": "'", "&quot;": '"'}).partition("\n")[0].strip() if found else ""


def _short(text: str) -> str:
    line = " ".join(text.split()).rstrip(": ")
    return line if len(line) <= _MOST else line[:_MOST] + " …"
