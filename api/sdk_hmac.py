"""Verification of requests signed with SDK-HMAC-SHA256, as Huawei Cloud's SDKs sign. Decision 0048.

The key signs directly: nothing is derived from a date, a region or a service. A path is signed with its segments
percent-encoded and with a slash at its end. The query is signed as it is sent, since the SDK sends it in its canonical
form. Refused are unsigned payloads, temporary keys, and paths that a router could read in another way.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import quote, unquote

from batchq.api.signed_requests import (
    DUMMY_SECRET,
    SignedRequest,
    SigningKey,
    check_time,
    header_lines,
    incomplete,
    mismatch,
    signed_headers,
    wrong_signature,
)

ALGORITHM = "SDK-HMAC-SHA256"
ALWAYS_SIGNED = frozenset({"host", "x-sdk-date"})  # X-Project-Id, Content-Type and X-Sdk-* too, if they are present

_AUTHORIZATION = re.compile(
    r"SDK-HMAC-SHA256 +Access=(?P<key>[\w.+=@-]{1,128}) *, *SignedHeaders=(?P<headers>[!-:<-~]+(?:;[!-:<-~]+)*) *"
    r", *Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_QUERY = re.compile(r"[!\"$-~]*")


class SdkHmacVerifier:
    """Verifies signatures. The arguments are those of SignatureVerifier."""

    def __init__(self, *, find: Callable[[str], SigningKey | None], now: Callable[[], datetime]) -> None:
        self._find = find
        self._now = now

    def verify(self, sent: SignedRequest) -> str:
        """Return the id of the key that signed the request. Raises HttpRefusal.

        The error is the same for an unknown key and a wrong secret.
        """
        lines = header_lines(sent)
        match lines.get("authorization", ()):
            case [one]:
                authorization = _AUTHORIZATION.fullmatch(one)
            case _:
                authorization = None
        if authorization is None:
            raise incomplete("The Authorization header is not a valid SDK-HMAC-SHA256 signature.")
        if "x-security-token" in lines:
            raise mismatch("Temporary keys (X-Security-Token) are not supported.")
        required = ALWAYS_SIGNED | (lines.keys() & {"x-project-id"})
        signed = signed_headers(authorization["headers"].split(";"), lines, required=required, prefix="x-sdk-")
        check_time(signed["x-sdk-date"], header="X-Sdk-Date", now=self._now())
        key = self._find(authorization["key"])
        expected = _signature(sent, signed, key.secret if key else DUMMY_SECRET)
        if not hmac.compare_digest(expected, authorization["signature"]) or key is None:
            raise wrong_signature()
        return authorization["key"]


def _signature(sent: SignedRequest, signed: Mapping[str, str], secret: str) -> str:
    """The expected signature. `signed` has the headers in the order of SignedHeaders."""
    path, _, query = sent.target.partition("?")
    if not sent.method.isupper() or not _QUERY.fullmatch(query):
        raise incomplete("The request line must have an upper-case method and a percent-encoded query.")
    hashed = hashlib.sha256(sent.body).hexdigest()
    if signed.get("x-sdk-content-sha256", hashed) != hashed:
        raise mismatch("X-Sdk-Content-Sha256 does not match the body.")
    headers = "".join(f"{name}:{value.strip()}\n" for name, value in signed.items())
    canonical = "\n".join([sent.method, _canonical_path(path), query, headers, ";".join(signed), hashed])
    to_sign = "\n".join([ALGORITHM, signed["x-sdk-date"], hashlib.sha256(canonical.encode()).hexdigest()])
    return hmac.new(secret.encode(), to_sign.encode(), hashlib.sha256).hexdigest()


def _canonical_path(path: str) -> str:
    """The path as it is signed. Raises HttpRefusal for a path that shares its canonical form with another resource."""
    try:
        segments = [unquote(it, errors="strict") for it in path.split("/")]
        canonical = "/".join(quote(it, safe="~") for it in segments) + "/"
    except UnicodeError:
        raise incomplete("The path must be percent-encoded UTF-8.") from None
    if segments[0] != "" or not all(segments[1:]) or not {".", ".."}.isdisjoint(segments):
        raise incomplete("The path must be absolute and normalized, without a slash at its end.")
    return canonical
