"""Whether a request was signed with a key that we gave out: AWS's Signature Version 4, in the Authorization header.

botocore's own signer says what the signature should be. What is refused is refused before anything of the request is
read but its bytes. Signatures in the query, unsigned and streamed payloads are not taken.
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

SKEW = timedelta(minutes=5)  # AWS: five, either way
SERVICES = frozenset({"batch", "logs"})
MUST = frozenset({"host", "x-amz-date"})  # be signed, and whatever of AWS's own headers there is

_SAID = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=(?P<key>[\w.+=@-]{1,128})/(?P<date>[0-9]{8})/(?P<region>[a-z0-9-]{1,32})"
    r"/(?P<service>[a-z0-9-]{1,32})/aws4_request *, *SignedHeaders=(?P<headers>[!-:<-~]+(?:;[!-:<-~]+)*) *"
    r", *Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_PLAIN = re.compile(r"/[!-\"$-~]*")
_NOBODY = "no key that was given out has this secret, and it takes as long to see so"


class SigningKey(Protocol):
    """A key, as far as verifying needs it."""

    @property
    def secret(self) -> str: ...


class SignedRequest(Struct, frozen=True, kw_only=True):
    """A request as it came: `target` is the raw path with its query, `headers` have each line of the head."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes


class SignatureVerifier:
    """`find` knows the keys that may sign now; `now` is the wall clock's time, for that is what clients sign by."""

    def __init__(self, *, find: Callable[[str], SigningKey | None], now: Callable[[], datetime]) -> None:
        self._find = find
        self._now = now

    def verify(self, sent: SignedRequest) -> str:
        """The id of the key that signed it. Raises Refused with AWS's code; which half was wrong is not told."""
        lines = _lines(sent)
        said = _said(lines)
        signed = _signed(said["headers"].split(";"), lines)
        self._check_time(signed["x-amz-date"], said)
        _check_payload(signed, sent.body)
        key = self._find(said["key"])
        due = _signature(sent, signed, said, key.secret if key else _NOBODY)
        if not hmac.compare_digest(due, said["signature"]) or key is None:
            raise _denied("InvalidSignatureException", "The request signature we calculated does not match yours.")
        return said["key"]

    def _check_time(self, date: str, said: Mapping[str, str]) -> None:
        try:
            at = datetime.strptime(date, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
        except ValueError:
            raise _incomplete("X-Amz-Date is not a time as 20260101T000000Z.") from None
        if not date.startswith(said["date"]):
            raise _denied("InvalidSignatureException", "The credential's date is not that of X-Amz-Date.")
        if abs(self._now() - at) > SKEW:
            raise _denied(
                "InvalidSignatureException",
                f"Signature expired or not yet valid: it is {self._now():%Y%m%dT%H%M%SZ} here.",
            )


def _lines(sent: SignedRequest) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for name, value in sent.headers:
        lines.setdefault(name.lower(), []).append(value)
    return lines


def _said(lines: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    match lines.get("authorization", ()):
        case []:
            raise _denied("MissingAuthenticationTokenException", "Missing Authentication Token")
        case [one]:
            said = _SAID.fullmatch(one)
        case _:
            said = None
    if said is None:
        raise _incomplete("The Authorization header is not one signature of AWS, version 4.")
    if said["service"] not in SERVICES:
        raise _denied("InvalidSignatureException", "The credential is scoped to another service.")
    return said.groupdict()


def _signed(names: Sequence[str], lines: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """The headers that are covered. One that stands there twice may mean either, so none of these may."""
    must = MUST | {name for name in lines if name.startswith("x-amz-") or name == "content-type"}
    if missing := sorted(must - set(names)):
        raise _incomplete(f"The signature must cover the header {missing[0][:100]}.")
    if wrong := [name for name in names if len(lines.get(name, ())) != 1]:
        raise _incomplete(f"The header {wrong[0][:100]} is said to be signed, and does not stand there once.")
    if odd := [name for name in names if not lines[name][0].isascii()]:  # AWS's clients sign nothing else
        raise _incomplete(f"The value of the signed header {odd[0][:100]} is not ASCII.")
    return {name: lines[name][0] for name in names}


def _check_payload(headers: Mapping[str, str], body: bytes) -> None:
    stated = headers.get("x-amz-content-sha256")
    if stated is not None and stated != hashlib.sha256(body).hexdigest():
        raise _denied("InvalidSignatureException", "X-Amz-Content-Sha256 is not that of the body.")


def _signature(sent: SignedRequest, signed: Mapping[str, str], said: Mapping[str, str], secret: str) -> str:
    """What it should be. A request line that could be spelt otherwise has none."""
    if not sent.method.isupper() or not _is_plain(sent.target):
        raise _incomplete("The request line is not a method in capitals and a path.")
    try:
        request = AWSRequest(sent.method, f"http://{signed['host']}{sent.target}", headers=signed, data=sent.body)
        request.context["timestamp"] = signed["x-amz-date"]
        signer = SigV4Auth(Credentials(said["key"], secret), said["service"], said["region"])
        due: str = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    except ValueError:  # bytes that are no text, a host that is none
        raise _incomplete("The head of the request is not text that can be signed.") from None
    return due


def _is_plain(target: str) -> bool:
    """One spelling to a signature: botocore signs `/a/../b` and `//b` as `/b`, which to the router are others."""
    path = target.partition("?")[0]
    return _PLAIN.fullmatch(target) is not None and normalize_url_path(path) == path


def _denied(code: str, message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code=code)


def _incomplete(message: str) -> HttpRefusal:
    return _denied("IncompleteSignatureException", message)
