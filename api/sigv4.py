"""Verification of requests signed with AWS Signature Version 4 in the Authorization header. Decision 0020.

botocore's own signer computes the expected signature. Bodies are not parsed before the signature is verified. Presigned
URLs (signatures in the query), unsigned payloads and streamed payloads are refused.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.utils import normalize_url_path
from msgspec import Struct

from batchq.api.http import HttpRefusal

SKEW = timedelta(minutes=5)  # AWS: five, in either direction
SERVICES = frozenset({"batch", "logs"})
ALWAYS_SIGNED = frozenset(
    {"host", "x-amz-date"}
)  # always signed; x-amz-* and Content-Type headers too, if they are present

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=(?P<key>[\w.+=@-]{1,128})/(?P<date>[0-9]{8})/(?P<region>[a-z0-9-]{1,32})"
    r"/(?P<service>[a-z0-9-]{1,32})/aws4_request *, *SignedHeaders=(?P<headers>[!-:<-~]+(?:;[!-:<-~]+)*) *"
    r", *Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_PLAIN = re.compile(r"/[!-\"$-~]*")
#: The secret for unknown keys: their verification takes as long as that of known ones.
_DUMMY_KEY = "no access key has this secret"


class SigningKey(Protocol):
    """An access key, as far as verification needs it."""

    @property
    def secret(self) -> str: ...


class SignedRequest(Struct, frozen=True, kw_only=True):
    """A request as it was received."""

    method: str
    #: The raw path with the query.
    target: str
    #: One pair of name and value for each header line; names may repeat.
    headers: Sequence[tuple[str, str]]
    body: bytes


class SignatureVerifier:
    """Verifies signatures.

    `find` returns the key of an id if it may sign now, else None. `now` returns the wall clock's time, because clients
    sign theirs.
    """

    def __init__(self, *, find: Callable[[str], SigningKey | None], now: Callable[[], datetime]) -> None:
        self._find = find
        self._now = now

    def verify(self, sent: SignedRequest) -> str:
        """Return the id of the key that signed the request. Raises HttpRefusal with AWS's code.

        The error is the same for an unknown key and a wrong secret.
        """
        lines = _header_lines(sent)
        authorization = _parse_authorization(lines)
        signed = _signed_headers(authorization["headers"].split(";"), lines)
        self._check_time(signed["x-amz-date"], authorization)
        _check_payload(signed, sent.body)
        key = self._find(authorization["key"])
        expected = _signature(sent, signed, authorization, key.secret if key else _DUMMY_KEY)
        if not hmac.compare_digest(expected, authorization["signature"]) or key is None:
            raise _denied("InvalidSignatureException", "The request signature we calculated does not match yours.")
        return authorization["key"]

    def _check_time(self, date: str, authorization: Mapping[str, str]) -> None:
        try:
            at = datetime.strptime(date, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
        except ValueError:
            raise _incomplete("X-Amz-Date must have the form 20260101T000000Z.") from None
        if not date.startswith(authorization["date"]):
            raise _denied("InvalidSignatureException", "The credential's date does not match X-Amz-Date.")
        if abs(self._now() - at) > SKEW:
            raise _denied(
                "InvalidSignatureException",
                f"Signature expired or not yet valid: the server's time is {self._now():%Y%m%dT%H%M%SZ}.",
            )


def _header_lines(sent: SignedRequest) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for name, value in sent.headers:
        lines.setdefault(name.lower(), []).append(value)
    return lines


def _parse_authorization(lines: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    match lines.get("authorization", ()):
        case []:
            raise _denied("MissingAuthenticationTokenException", "Missing Authentication Token")
        case [one]:
            authorization = _AUTHORIZATION.fullmatch(one)
        case _:
            authorization = None
    if authorization is None:
        raise _incomplete("The Authorization header is not a valid AWS Signature Version 4.")
    if authorization["service"] not in SERVICES:
        raise _denied("InvalidSignatureException", "The credential is scoped to another service.")
    return authorization.groupdict()


def _signed_headers(names: Sequence[str], lines: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """The signed headers. Raises HttpRefusal if one of them appears twice, because its value is ambiguous."""
    must = ALWAYS_SIGNED | {name for name in lines if name.startswith("x-amz-") or name == "content-type"}
    if missing := sorted(must - set(names)):
        raise _incomplete(f"The signature must cover the header {missing[0][:100]}.")
    if wrong := [name for name in names if len(lines.get(name, ())) != 1]:
        raise _incomplete(f"The header {wrong[0][:100]} is listed as signed, but is not present exactly once.")
    if odd := [name for name in names if not lines[name][0].isascii()]:  # AWS's clients sign ASCII only
        raise _incomplete(f"The value of the signed header {odd[0][:100]} is not ASCII.")
    return {name: lines[name][0] for name in names}


def _check_payload(headers: Mapping[str, str], body: bytes) -> None:
    stated = headers.get("x-amz-content-sha256")
    if stated is not None and stated != hashlib.sha256(body).hexdigest():
        raise _denied("InvalidSignatureException", "X-Amz-Content-Sha256 does not match the body.")


def _signature(sent: SignedRequest, signed: Mapping[str, str], authorization: Mapping[str, str], secret: str) -> str:
    """The expected signature. Raises HttpRefusal for a request line that has other spellings."""
    if not sent.method.isupper() or not _is_plain(sent.target):
        raise _incomplete("The request line must have an upper-case method and a normalized path.")
    try:
        request = AWSRequest(sent.method, f"http://{signed['host']}{sent.target}", headers=signed, data=sent.body)
        request.context["timestamp"] = signed["x-amz-date"]
        signer = SigV4Auth(Credentials(authorization["key"], secret), authorization["service"], authorization["region"])
        expected: str = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    except ValueError:  # bytes that are not text, an invalid host
        raise _incomplete("The request line or a header cannot be signed.") from None
    return expected


def _is_plain(target: str) -> bool:
    """Whether no other path has the same signature: botocore signs `/a/../b` and `//b` as `/b`, unlike the router."""
    path = target.partition("?")[0]
    return _PLAIN.fullmatch(target) is not None and normalize_url_path(path) == path


def _denied(code: str, message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code=code)


def _incomplete(message: str) -> HttpRefusal:
    return _denied("IncompleteSignatureException", message)
