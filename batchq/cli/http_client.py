"""The HTTP client of the commands. They use the public API; none accesses the store of a running server."""

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, create_default_context
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from batchq.cli.config import BUNDLE, KEY, REGION, SECRET, URL, load, usual_file
from batchq.errors import Invalid, Misused, ServerUnavailable

HERE = "http://127.0.0.1:22824"
PATIENCE = 30.0  # seconds
KEYS = f"set {KEY} and {SECRET} to a key of `batchq key create`"
NOBODY_VOUCHES = range(18, 22)  # OpenSSL's verification errors for a certificate of an unknown authority
TRUST = f"; set --ca-bundle or {BUNDLE} to the certificate of its authority"
MOST = 16 * 1024 * 1024  # bytes of a response that is not streamed
NDJSON = "application/x-ndjson"
MAX_LINE = 1024 * 1024  # bytes of one line of an NDJSON response

Answer = Mapping[str, object]


def add_url(command: ArgumentParser) -> None:
    """Declare the flags that `url_of` reads."""
    command.add_argument("--url", help=f"URL of the server (${URL}, or {HERE})")
    add_trust(command)


def add_trust(command: ArgumentParser) -> None:
    command.add_argument("--ca-bundle", help=f"trusted certificates, a PEM file (${BUNDLE}, or the system's)")
    usual = str(usual_file()).replace("%", "%%")
    text = f"TOML file with url, ca_bundle, region, and key_id and secret, or profile ({usual})"
    command.add_argument("-C", "--config", type=Path, metavar="FILE", help=text)


def url_of(asked: Namespace) -> str:
    """The server's URL: from `--url`, BATCHQ_URL or the config file, else the default. Raises Misused.

    Sets the environment variables for signing and TLS, which are those of AWS's tools, from the config file and
    `--ca-bundle`.
    """
    if asked.ca_bundle:
        os.environ[BUNDLE] = asked.ca_bundle
    load(asked.config)
    url: str = asked.url or os.environ.get(URL) or HERE
    if not _is_of_a_server(url):
        raise Misused(f"{url} is not the http:// or https:// URL of a server")
    return url.rstrip("/")


def _is_of_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        name = (parts.hostname or "").encode("idna")
        return parts.scheme in {"http", "https"} and url.isascii() and bool(name) and parts.port != 0
    except ValueError:  # an incomplete IPv6 address, an invalid port, a host name that is too long
        return False


def call(
    url: str,
    path: str,
    content: Mapping[str, object] | None = None,
    *,
    patience: float = PATIENCE,
    signed: bool = True,
) -> Answer:
    """The JSON object that answers a GET, or a POST of `content`.

    The request is signed if `signed` and the environment has a key. `patience`: the timeout of each network operation,
    in seconds. Raises Invalid, with the server's message, if the server refuses the request; ServerUnavailable for a
    5xx or 429 response, and if batchq does not respond; Misused for an unreadable bundle of certificates.
    """
    with _asking(url, path, content, patience=patience, signed=signed) as reply:
        return _read(reply.read(MOST), url)


@contextmanager
def stream(
    url: str, path: str, content: Mapping[str, object], *, patience: float
) -> Iterator[Iterator[Mapping[str, object]]]:
    """The objects of an NDJSON response to a POST, each as soon as it arrives.

    `patience`: the timeout of each network operation, in seconds. Raises the errors of `call`, also while the objects
    are read.
    """
    with _asking(url, path, content, patience=patience, signed=True) as reply:
        if reply.headers.get_content_type() != NDJSON:
            raise ServerUnavailable(f"the server at {url} is not batchq")
        yield _objects(reply, url)


def _objects(reply: HTTPResponse, url: str) -> Iterator[Mapping[str, object]]:
    while line := reply.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            raise ServerUnavailable(f"the response of {url} is incomplete")
        yield _read(line, url)


@contextmanager
def _asking(
    url: str, path: str, content: Mapping[str, object] | None, *, patience: float, signed: bool
) -> Iterator[HTTPResponse]:
    body = None if content is None else json.dumps(content).encode()
    request = Request(url + path, data=body, headers=_headers(url + path, body, signed=signed))  # noqa: S310 - see url_of
    try:
        with _opener(url).open(request, timeout=patience) as reply:
            yield reply
    except HTTPError as refused:
        with refused:
            raise _refusal(refused, url) from None
    except IncompleteRead:
        raise ServerUnavailable(f"the response of {url} is incomplete") from None
    except (OSError, HTTPException) as away:
        why = getattr(away, "reason", None) or str(away) or type(away).__name__
        if isinstance(why, SSLCertVerificationError):
            why = why.verify_message + (TRUST if why.verify_code in NOBODY_VOUCHES else "")
        raise ServerUnavailable(f"cannot reach a batchq server at {url}: {why}") from None


def _opener(url: str) -> OpenerDirector:
    # The proxy that the environment may name is not used: a server on this machine is not behind it.
    handlers = (ProxyHandler({}), _Nowhere)
    if url.startswith("http:"):
        return build_opener(*handlers)  # loading the system's certificates takes longer than the call
    return build_opener(*handlers, HTTPSHandler(context=_trust()))


def _trust() -> SSLContext:
    bundle = os.environ.get(BUNDLE) or None
    try:
        return create_default_context(cafile=bundle)
    except OSError:  # of which SSLError is a subclass
        raise Misused(f"{bundle} is not a PEM file of certificates") from None


class _Nowhere(HTTPRedirectHandler):
    """Follows no redirect: a signature is valid for one server."""

    def redirect_request(self, *_: object) -> None:
        pass


def _headers(url: str, body: bytes | None, *, signed: bool) -> Mapping[str, str]:
    """The headers of a request, signed with the key in the variables of AWS's tools, if there is one."""
    headers = {"Content-Type": "application/json"}
    key, secret = os.environ.get(KEY), os.environ.get(SECRET)
    if not signed or not key or not secret:
        return headers
    from batchq.cli.signing import sign  # noqa: PLC0415 - importing botocore is slow

    region = os.environ.get(REGION) or "us-east-1"
    return sign(url, body, headers, key=key, secret=secret, region=region)


def _refusal(refused: HTTPError, url: str) -> Invalid | ServerUnavailable:
    """The error for an HTTP error response; ServerUnavailable if the request may be repeated later."""
    code = refused.headers.get("x-amzn-ErrorType", "")
    message = str(_read(refused.read(MOST), url).get("message") or refused.reason)
    if "Signature" in code or "AuthenticationToken" in code:
        message = f"{message.rstrip('.')}: {KEYS}"
    later = refused.code >= HTTPStatus.INTERNAL_SERVER_ERROR or refused.code == HTTPStatus.TOO_MANY_REQUESTS
    return ServerUnavailable(message) if later else Invalid(message)


def _read(body: bytes, url: str) -> Answer:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ServerUnavailable(f"the server at {url} is not batchq")
    return content
