"""How a command asks a running server: by HTTP, as anybody does. It has no short cut into the store."""

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from http.client import HTTPException
from ssl import SSLCertVerificationError, SSLContext, create_default_context
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from batchq.errors import Invalid, Unavailable

VARIABLE = "BATCHQ_URL"
BUNDLE = "AWS_CA_BUNDLE"
HERE = "http://127.0.0.1:22824"
PATIENCE = 30.0  # seconds
KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to a key of `batchq key create`"
MOST = 16 * 1024 * 1024  # bytes of an answer

Answer = Mapping[str, object]


def add_url(command: ArgumentParser) -> None:
    command.add_argument("--url", help=f"where batchq answers (${VARIABLE}, or {HERE})")
    command.add_argument("--ca-bundle", help=f"whose certificates are believed, PEM (${BUNDLE}, or the system's)")


def url_of(asked: Namespace) -> str:
    """Where the server is, by the flag, by the variable, or where it is unless told otherwise. Raises Invalid.

    Whom to believe that it is the server is a variable of AWS's own tools, as the keys to sign with are.
    """
    if asked.ca_bundle:
        os.environ[BUNDLE] = asked.ca_bundle
    url: str = asked.url or os.environ.get(VARIABLE) or HERE
    if not _is_of_a_server(url):
        raise Invalid(f"{url} is not the http:// or https:// URL of a server")
    return url.rstrip("/")


def _is_of_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        name = (parts.hostname or "").encode("idna")
        return parts.scheme in {"http", "https"} and url.isascii() and bool(name) and parts.port != 0
    except ValueError:  # half an address, a port too high, a name too long
        return False


def call(
    url: str,
    path: str,
    content: Mapping[str, object] | None = None,
    *,
    patience: float = PATIENCE,
    signed: bool = True,
) -> Answer:
    """The answer to a GET, or to a POST of the content; `signed` where the environment has keys.

    Raises Invalid with the server's own words when it refuses; Unavailable when nobody answers, or nobody of ours.
    """
    body = None if content is None else json.dumps(content).encode()
    request = Request(url + path, data=body, headers=_headers(url + path, body, signed=signed))  # noqa: S310 - see url_of
    try:
        with _opener(url).open(request, timeout=patience) as reply:
            return _read(reply.read(MOST), url)
    except HTTPError as refused:
        with refused:
            raise _refusal(refused, url) from None
    except (OSError, HTTPException) as away:
        why = getattr(away, "reason", None) or str(away) or type(away).__name__
        if isinstance(why, SSLCertVerificationError):
            why = f"{why.verify_message}; --ca-bundle, or {BUNDLE}, says whose certificates are believed"
        raise Unavailable(f"no batchq answers at {url}: {why}") from None


def _opener(url: str) -> OpenerDirector:
    # What listens on this machine is not behind the proxy that the environment may name.
    handlers = (ProxyHandler({}), _Nowhere)
    if url.startswith("http:"):
        return build_opener(*handlers)  # to know whom the system believes takes longer than the call
    return build_opener(*handlers, HTTPSHandler(context=_trust()))


def _trust() -> SSLContext:
    bundle = os.environ.get(BUNDLE) or None
    try:
        return create_default_context(cafile=bundle)
    except OSError:  # SSLError is one
        raise Invalid(f"{bundle} is no bundle of certificates, in PEM") from None


class _Nowhere(HTTPRedirectHandler):
    """Nobody sends us elsewhere: what is signed is for one server."""

    def redirect_request(self, *_: object) -> None:
        pass


def _headers(url: str, body: bytes | None, *, signed: bool) -> Mapping[str, str]:
    """Signed by what AWS's own tools would sign with."""
    headers = {"Content-Type": "application/json"}
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not signed or not key or not secret:
        return headers
    from batchq.cli.signing import sign  # noqa: PLC0415 - who signs nothing need not wait for it

    region = os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return sign(url, body, headers, key=key, secret=secret, region=region)


def _refusal(refused: HTTPError, url: str) -> Invalid | Unavailable:
    code = refused.headers.get("x-amzn-ErrorType", "")
    message = str(_read(refused.read(MOST), url).get("message") or refused.reason)
    if "Signature" in code or "AuthenticationToken" in code:
        message = f"{message.rstrip('.')}: {KEYS}"
    return Invalid(message) if refused.code < 500 else Unavailable(message)  # noqa: PLR2004 - HTTP's own line


def _read(body: bytes, url: str) -> Answer:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Unavailable(f"what answers at {url} is not batchq")
    return content
