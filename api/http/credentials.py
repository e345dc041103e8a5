"""Verification of the credentials that dialects accept: signatures and tokens. Bodies are parsed afterwards only.

Signatures are AWS Signature Version 4 and Huawei Cloud's SDK-HMAC-SHA256. Unsigned and streamed payloads, and paths
that a router could read in another way than the signer, are refused. A token is `KEYID.SECRET` of an access key. Since
the secret itself is sent, a token is accepted over TLS, or from this machine, only. Decisions 0020 and 0048.
"""

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import ClassVar, Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from batchq.accounts.files import AccessKey
from batchq.accounts.signatures import ALGORITHM, TIMESTAMP, SigningKey, is_normalized, sigv4_signature
from batchq.api.http.http import FailureKind, HttpRefusal

SKEW = timedelta(minutes=5)  # AWS: five, in either direction
SIGV4_SERVICES = frozenset({"batch", "logs", "sagemaker"})
#: The secret for unknown keys: their verification takes as long as that of known ones.
DUMMY_SECRET = "no access key has this secret"  # noqa: S105 - of no key
_SIGNED = (
    r"SignedHeaders=(?P<headers>[!-:<-~]+(?:;[!-:<-~]+)*) *, *Signature=(?P<signature>[0-9a-f]{64})"  # of both methods
)
_SIGV4 = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=(?P<key>[\w.+=@-]{1,128})/(?P<date>[0-9]{8})/(?P<region>[a-z0-9-]{1,32})"
    rf"/(?P<service>[a-z0-9-]{{1,32}})/aws4_request *, *{_SIGNED}",
    re.ASCII,
)
_SDK_HMAC = re.compile(rf"SDK-HMAC-SHA256 +Access=(?P<key>[\w.+=@-]{{1,128}}) *, *{_SIGNED}", re.ASCII)
_METHOD = re.compile(r"[A-Z]+")
_TARGET = re.compile(r"/[!-\"$-~]*")
_QUERY = re.compile(r"[!\"$-~]*")


class SignedRequest(Struct, frozen=True, kw_only=True):
    """A request as it was received."""

    method: str
    #: The raw path with the query.
    target: str
    #: One pair of name and value for each header line; names may repeat.
    headers: Sequence[tuple[str, str]]
    body: bytes


class SignatureVerifier(ABC):
    """Verifies the signatures of one method.

    `find` returns the key of an id if it may sign now, else None. `now` returns the wall clock's time, because clients
    sign theirs.
    """

    algorithm: ClassVar[str]
    _authorization: ClassVar[re.Pattern[str]]
    #: A header that begins with it must be signed. The header of the date, and of the hash of the body, begin with it.
    _prefix: ClassVar[str]
    #: Other headers that must be signed if they are present.
    _covered: ClassVar[frozenset[str]]

    def __init__(self, *, find: Callable[[str], AccessKey | None], now: Callable[[], datetime]) -> None:
        self._find = find
        self._now = now

    def verify(self, sent: SignedRequest) -> str:
        """Return the id of the key that signed the request. Raises HttpRefusal with AWS's code.

        The error is the same for an unknown key and a wrong secret.
        """
        lines = header_lines(sent)
        values = lines.get("authorization", ())
        authorization = self._authorization.fullmatch(values[0]) if len(values) == 1 else None
        if authorization is None:
            raise incomplete(f"The Authorization header is not a valid signature with {self.algorithm}.")
        required = {"host", f"{self._prefix}date", *self._check(authorization, lines)}
        required |= {name for name in lines if name.startswith(self._prefix)} | (self._covered & lines.keys())
        signed = _signed_headers(authorization["headers"].split(";"), lines, required=required)
        date, hashed = signed[f"{self._prefix}date"], hashlib.sha256(sent.body).hexdigest()
        _check_time(date, header=f"{self._prefix}date".title(), now=self._now())
        if not date.startswith(authorization.groupdict().get("date", "")):
            raise mismatch(f"The credential's date does not match {self._prefix.title()}Date.")
        if signed.get(f"{self._prefix}content-sha256", hashed) != hashed:
            raise mismatch(f"{self._prefix.title()}Content-Sha256 does not match the body.")
        key = self._find(authorization["key"])
        expected = self._sign(sent, signed, authorization, key.secret if key else DUMMY_SECRET)
        if not hmac.compare_digest(expected, authorization["signature"]) or key is None:
            raise mismatch("The request signature we calculated does not match yours.")
        return authorization["key"]

    @abstractmethod
    def _check(self, authorization: re.Match[str], lines: Mapping[str, Sequence[str]]) -> Sequence[str]:
        """Return the names of further headers that must be signed. Raises HttpRefusal for an unsupported request."""

    @abstractmethod
    def _sign(self, sent: SignedRequest, signed: Mapping[str, str], authorization: re.Match[str], secret: str) -> str:
        """The expected signature. `signed` has the headers in the order of SignedHeaders.

        Raises HttpRefusal for a request line that has other spellings.
        """


class SigV4Verifier(SignatureVerifier):
    """AWS Signature Version 4.

    Presigned URLs (signatures in the query) are refused. AWS: the Content-Type need not be signed; the SDKs for PHP and
    JavaScript (version 2) do not sign it. Decision 0123.
    """

    algorithm = ALGORITHM
    _authorization = _SIGV4
    _prefix = "x-amz-"
    _covered = frozenset()

    def _check(self, authorization: re.Match[str], lines: Mapping[str, Sequence[str]]) -> Sequence[str]:  # noqa: ARG002
        if authorization["service"] not in SIGV4_SERVICES:
            raise mismatch("The credential is scoped to another service.")
        return ()

    def _sign(self, sent: SignedRequest, signed: Mapping[str, str], authorization: re.Match[str], secret: str) -> str:
        path, _, query = sent.target.partition("?")
        # AWS's clients sign `/a/../b` and `//b` as `/b`, unlike the router.
        if not (_METHOD.fullmatch(sent.method) and _TARGET.fullmatch(sent.target) and is_normalized(path)):
            raise incomplete("The request line must have an upper-case method and a normalized path.")
        key = SigningKey(authorization["key"], secret, authorization["region"], authorization["service"])
        return sigv4_signature(key, method=sent.method, path=path, query=query, headers=signed, body=sent.body)


class SdkHmacVerifier(SignatureVerifier):
    """SDK-HMAC-SHA256, as Huawei Cloud's SDKs sign.

    The key signs directly: nothing is derived from a date, a region or a service. A path is signed with its segments
    percent-encoded and with a slash at its end. The query is signed as it is sent, since the SDK sends it in its
    canonical form. Temporary keys are refused.
    """

    algorithm = "SDK-HMAC-SHA256"
    _authorization = _SDK_HMAC
    _prefix = "x-sdk-"
    _covered = frozenset({"content-type"})

    def _check(self, authorization: re.Match[str], lines: Mapping[str, Sequence[str]]) -> Sequence[str]:  # noqa: ARG002
        if "x-security-token" in lines:
            raise mismatch("Temporary keys (X-Security-Token) are not supported.")
        return ("x-project-id",) if "x-project-id" in lines else ()

    def _sign(
        self,
        sent: SignedRequest,
        signed: Mapping[str, str],
        authorization: re.Match[str],  # noqa: ARG002
        secret: str,
    ) -> str:
        path, _, query = sent.target.partition("?")
        if not sent.method.isupper() or not _QUERY.fullmatch(query):
            raise incomplete("The request line must have an upper-case method and a percent-encoded query.")
        hashed = hashlib.sha256(sent.body).hexdigest()
        headers = "".join(f"{name}:{value.strip()}\n" for name, value in signed.items())
        canonical = "\n".join([sent.method, _canonical_path(path), query, headers, ";".join(signed), hashed])
        to_sign = "\n".join([self.algorithm, signed["x-sdk-date"], hashlib.sha256(canonical.encode()).hexdigest()])
        return hmac.new(secret.encode(), to_sign.encode(), hashlib.sha256).hexdigest()


def header_lines(sent: SignedRequest) -> dict[str, list[str]]:
    """The values of each header, by its name in lower case."""
    lines: dict[str, list[str]] = {}
    for name, value in sent.headers:
        lines.setdefault(name.lower(), []).append(value)
    return lines


def mismatch(message: str) -> HttpRefusal:
    return refusal("InvalidSignatureException", message)


def incomplete(message: str) -> HttpRefusal:
    return refusal("IncompleteSignatureException", message)


def refusal(code: str, message: str, *, kind: FailureKind = FailureKind.BAD_CREDENTIAL) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code=code, kind=kind)


def _signed_headers(
    names: Sequence[str], lines: Mapping[str, Sequence[str]], *, required: set[str]
) -> Mapping[str, str]:
    """The values of the headers `names`, which a signature covers.

    Raises HttpRefusal unless they include `required`, and if one of them appears twice, because its value is ambiguous.
    """
    if missing := sorted(required - set(names)):
        raise incomplete(f"The signature must cover the header {missing[0][:100]}.")
    if wrong := [name for name in names if len(lines.get(name, ())) != 1]:
        raise incomplete(f"The header {wrong[0][:100]} is listed as signed, but is not present exactly once.")
    if odd := [name for name in names if not lines[name][0].isascii()]:  # clients sign ASCII only
        raise incomplete(f"The value of the signed header {odd[0][:100]} is not ASCII.")
    return {name: lines[name][0] for name in names}


def _check_time(date: str, *, header: str, now: datetime) -> None:
    """Raise HttpRefusal unless `date`, the value of `header`, is within SKEW of `now`, the wall clock's time."""
    try:
        at = datetime.strptime(date, TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        raise incomplete(f"{header} must have the form 20260101T000000Z.") from None
    if abs(now - at) > SKEW:
        raise mismatch(f"Signature expired or not yet valid: the server's time is {now.strftime(TIMESTAMP)}.")


def _canonical_path(path: str) -> str:
    """The path as it is signed. Raises HttpRefusal for a path that shares its canonical form with another resource."""
    try:
        segments = [unquote(part, errors="strict") for part in path.split("/")]
        canonical = "/".join(quote(segment, safe="~") for segment in segments) + "/"
    except UnicodeError:
        raise incomplete("The path must be percent-encoded UTF-8.") from None
    if segments[0] != "" or not all(segments[1:]) or not {".", ".."}.isdisjoint(segments):
        raise incomplete("The path must be absolute and normalized, without a slash at its end.")
    return canonical


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
    #: A cookie of the web console, whose pages /openapi.json does not describe.
    SESSION = "session"


#: In a header that a client sets.
HeaderScheme = Literal[Scheme.SIGV4, Scheme.SDK_HMAC, Scheme.BEARER, Scheme.AUTH_TOKEN]


class CredentialVerifier:
    """Verifies the credential of a request. The arguments are those of SignatureVerifier."""

    def __init__(self, *, find: Callable[[str], AccessKey | None], now: Callable[[], datetime]) -> None:
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
        if not self.is_secret(token[1], token[2]):
            raise refusal("UnrecognizedClientException", "The token is not valid.")
        return token[1]

    def is_secret(self, key_id: str, secret: str) -> bool:
        """Whether `secret` is that of the active key `key_id`. The time that this takes depends on neither."""
        key = self._find(key_id)
        expected = key.secret if key else DUMMY_SECRET
        return hmac.compare_digest(secret_digest(expected), secret_digest(secret)) and key is not None


def secret_digest(secret: str) -> bytes:
    """The SHA-256 of a secret. All have one length, because the time of a comparison depends on the lengths."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _scheme(lines: Mapping[str, Sequence[str]], schemes: frozenset[Scheme]) -> HeaderScheme:
    """The scheme of a request. Raises HttpRefusal for no credential, and for several, in every dialect."""
    authorization = lines.get("authorization", ())
    if authorization and TOKEN_HEADER in lines:
        raise incomplete("The request has both an Authorization and an X-Auth-Token header.")
    if Scheme.AUTH_TOKEN in schemes and TOKEN_HEADER in lines:
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
