"""Finds the access key of a request by one of the credentials that its dialect accepts. Decision 0048.

A token is `KEYID.SECRET` of an access key. Since the secret itself is sent, a token is accepted over TLS, or from this
machine, only.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from batchq.api.http import FailureKind
from batchq.api.signatures import (
    DUMMY_SECRET,
    SdkHmacVerifier,
    SignedRequest,
    SigningKey,
    SigV4Verifier,
    header_lines,
    incomplete,
    refusal,
)

TOKEN_HEADER = "x-auth-token"  # noqa: S105 - the name of a header
_BEARER = "Bearer"
_TOKEN = re.compile(r"([\w+=@-]{1,128})\.([!-~]{1,256})", re.ASCII)


class Scheme(StrEnum):
    """A kind of credential. The value is the name of its security scheme in OpenAPI."""

    #: AWS Signature Version 4.
    SIGV4 = "signature"
    #: SDK-HMAC-SHA256 of Huawei Cloud.
    SDK_HMAC = "sdkHmac"
    #: `Authorization: Bearer KEYID.SECRET`.
    BEARER = "bearer"
    #: `X-Auth-Token: KEYID.SECRET`.
    AUTH_TOKEN = "authToken"  # noqa: S105 - the name of a scheme


class CredentialVerifier:
    """Verifies the credential of a request. The arguments are those of SignatureVerifier."""

    def __init__(self, *, find: Callable[[str], SigningKey | None], now: Callable[[], datetime]) -> None:
        self._find = find
        self._sigv4 = SigV4Verifier(find=find, now=now)
        self._sdk_hmac = SdkHmacVerifier(find=find, now=now)

    def verify(self, sent: SignedRequest, *, schemes: frozenset[Scheme], confidential: bool) -> str:
        """Return the id of the key of the request. Raises HttpRefusal.

        `schemes`: the accepted ones. `confidential`: whether the connection is encrypted, or local.
        """
        lines = header_lines(sent)
        match _scheme(lines, schemes):
            case Scheme.SIGV4:
                return self._sigv4.verify(sent)
            case Scheme.SDK_HMAC:
                return self._sdk_hmac.verify(sent)
            case Scheme.BEARER:
                return self._verify_token(lines["authorization"], _BEARER, confidential=confidential)
            case Scheme.AUTH_TOKEN:
                return self._verify_token(lines[TOKEN_HEADER], "", confidential=confidential)

    def _verify_token(self, values: Sequence[str], prefix: str, *, confidential: bool) -> str:
        if not confidential:
            message = "A token is accepted over TLS, or from this machine, only. Replace the key if others may have it."
            raise refusal("AccessDeniedException", message, kind=FailureKind.FORBIDDEN)
        token = _TOKEN.fullmatch(values[0][len(prefix) :].strip(" ")) if len(values) == 1 else None
        if token is None:
            raise incomplete("The token must have the form KEYID.SECRET.")
        key = self._find(token[1])
        expected = key.secret if key else DUMMY_SECRET
        if not hmac.compare_digest(_digest(expected), _digest(token[2])) or key is None:
            raise refusal("UnrecognizedClientException", "The token is not valid.")
        return token[1]


def _digest(secret: str) -> bytes:
    """Of the same length for every secret, since the time of a comparison depends on the lengths."""
    return hashlib.sha256(secret.encode()).digest()


def _scheme(lines: Mapping[str, Sequence[str]], schemes: frozenset[Scheme]) -> Scheme:
    """The scheme of a request. Raises HttpRefusal for no credential, or several, if this is ambiguous."""
    authorization = lines.get("authorization", ())
    if Scheme.AUTH_TOKEN in schemes and TOKEN_HEADER in lines:
        if authorization:
            raise incomplete("The request has both an Authorization and an X-Auth-Token header.")
        return Scheme.AUTH_TOKEN
    if not authorization:
        code = "MissingAuthenticationTokenException"
        raise refusal(code, "Missing Authentication Token", kind=FailureKind.NO_CREDENTIAL)
    named = authorization[0].partition(" ")[0]
    if Scheme.SDK_HMAC in schemes and named == SdkHmacVerifier.algorithm:
        return Scheme.SDK_HMAC
    if Scheme.BEARER in schemes and named.lower() == _BEARER.lower():
        return Scheme.BEARER
    if Scheme.SIGV4 in schemes:
        return Scheme.SIGV4  # which refuses what is not a signature
    raise incomplete(f"The Authorization header must begin with {_accepted(schemes)}.")


def _accepted(schemes: frozenset[Scheme]) -> str:
    names = {Scheme.SDK_HMAC: SdkHmacVerifier.algorithm, Scheme.BEARER: _BEARER, Scheme.SIGV4: SigV4Verifier.algorithm}
    return " or ".join(name for scheme, name in names.items() if scheme in schemes)
