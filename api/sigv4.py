"""Verification of requests signed with AWS Signature Version 4 in the Authorization header. Decision 0020.

botocore's own signer computes the expected signature. Bodies are not parsed before the signature is verified. Presigned
URLs (signatures in the query), unsigned payloads and streamed payloads are refused.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.utils import normalize_url_path

from batchq.api.http import FailureKind
from batchq.api.signed_requests import (
    DUMMY_SECRET,
    SignedRequest,
    SigningKey,
    check_time,
    header_lines,
    incomplete,
    mismatch,
    refusal,
    signed_headers,
    wrong_signature,
)

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICES = frozenset({"batch", "logs", "sagemaker"})
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
        lines = header_lines(sent)
        authorization = _parse_authorization(lines)
        names = authorization["headers"].split(";")
        signed = signed_headers(names, lines, required=ALWAYS_SIGNED, prefix="x-amz-")
        self._check_time(signed["x-amz-date"], authorization)
        _check_payload(signed, sent.body)
        key = self._find(authorization["key"])
        expected = _signature(sent, signed, authorization, key.secret if key else DUMMY_SECRET)
        if not hmac.compare_digest(expected, authorization["signature"]) or key is None:
            raise wrong_signature()
        return authorization["key"]

    def _check_time(self, date: str, authorization: Mapping[str, str]) -> None:
        check_time(date, header="X-Amz-Date", now=self._now())
        if not date.startswith(authorization["date"]):
            raise mismatch("The credential's date does not match X-Amz-Date.")


def _parse_authorization(lines: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    match lines.get("authorization", ()):
        case []:
            code = "MissingAuthenticationTokenException"
            raise refusal(code, "Missing Authentication Token", kind=FailureKind.NO_CREDENTIAL)
        case [one]:
            authorization = _AUTHORIZATION.fullmatch(one)
        case _:
            authorization = None
    if authorization is None:
        raise incomplete("The Authorization header is not a valid AWS Signature Version 4.")
    if authorization["service"] not in SERVICES:
        raise mismatch("The credential is scoped to another service.")
    return authorization.groupdict()


def _check_payload(headers: Mapping[str, str], body: bytes) -> None:
    stated = headers.get("x-amz-content-sha256")
    if stated is not None and stated != hashlib.sha256(body).hexdigest():
        raise mismatch("X-Amz-Content-Sha256 does not match the body.")


def _signature(sent: SignedRequest, signed: Mapping[str, str], authorization: Mapping[str, str], secret: str) -> str:
    """The expected signature. Raises HttpRefusal for a request line that has other spellings."""
    if not sent.method.isupper() or not _is_plain(sent.target):
        raise incomplete("The request line must have an upper-case method and a normalized path.")
    try:
        request = AWSRequest(sent.method, f"http://{signed['host']}{sent.target}", headers=signed, data=sent.body)
        request.context["timestamp"] = signed["x-amz-date"]
        signer = SigV4Auth(Credentials(authorization["key"], secret), authorization["service"], authorization["region"])
        expected: str = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    except ValueError:  # bytes that are not text, an invalid host
        raise incomplete("The request line or a header cannot be signed.") from None
    return expected


def _is_plain(target: str) -> bool:
    """Whether no other path has the same signature: botocore signs `/a/../b` and `//b` as `/b`, unlike the router."""
    path = target.partition("?")[0]
    return _PLAIN.fullmatch(target) is not None and normalize_url_path(path) == path
