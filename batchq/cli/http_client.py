"""The HTTP client of the commands. They use the public API; none accesses the store of a running server."""

import json
import os
import re
import socket
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from ipaddress import ip_address
from pathlib import Path
from ssl import SSLCertVerificationError, SSLContext, create_default_context
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from msgspec import ValidationError, convert

from batchq.accounts.signatures import SigningKey, signed_headers
from batchq.cli.config import BUNDLE, KEY, REGION, SECRET, URL, default_file, load
from batchq.cli.output import print_notice
from batchq.cli.quantities import elapsed, now
from batchq.errors import Invalid, ServerUnavailable, UsageError

DEFAULT_URL = "http://127.0.0.1:22824"
AT_SOCKET = "http://localhost"  # the URL of requests that are sent to a unix socket
TIMEOUT = 30.0  # seconds
KEY_HINT = f"set {KEY} and {SECRET} to a key of `batchq key create`"
UNKNOWN_AUTHORITY = range(18, 22)  # OpenSSL's verification errors for a certificate of an unknown authority
TRUST_HINT = f"; set --ca-bundle or {BUNDLE} to the certificate of its authority"
MAX_RESPONSE = 16 * 1024 * 1024  # bytes of a response that is not streamed
NDJSON = "application/x-ndjson"
MAX_LINE = 1024 * 1024  # bytes of one line of an NDJSON response
INVOCATION = "amz-sdk-invocation-id"  # AWS: the header by which a repeated request is recognized
#: The JSON of a response of AWS Batch, which a command prints, or from which a command makes a request.
Document = dict[str, Any]

# AWS Batch wraps the texts of errors.
_WRAPPED = re.compile(r"Error executing request, Exception : (.*), RequestId: \S+", re.DOTALL)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds
Result = TypeVar("Result")
Answer = TypeVar("Answer")


def add_server_flags(command: ArgumentParser) -> None:
    """Declare the flags that `url_of` reads."""
    group = command.add_argument_group("server")
    group.add_argument("--url", help=f"URL: http://, https:// or unix:///PATH (${URL}, or {DEFAULT_URL})")
    add_connection_flags(group)


def add_connection_flags(command: Any) -> None:  # noqa: ANN401 - a parser, or a group of argparse's
    """Declare the flags that `url_of` reads, but `--url`."""
    command.add_argument(
        "--ca-bundle", metavar="FILE", help=f"trusted certificates, a PEM file (${BUNDLE}, or the system's)"
    )
    default = str(default_file()).replace("%", "%%")
    text = f"TOML file with url, ca_bundle, region, and key_id and secret, or profile ({default})"
    command.add_argument("-C", "--config", type=Path, metavar="FILE", help=text)


def url_of(args: Namespace) -> str:
    """The server's URL: from `--url`, BATCHQ_URL or the config file, else the default. Raises UsageError.

    Sets the environment variables for signing and TLS, which are those of AWS's tools, from the config file and
    `--ca-bundle`.
    """
    if args.ca_bundle:
        os.environ[BUNDLE] = args.ca_bundle
    load(args.config)
    url: str = args.url or os.environ.get(URL) or DEFAULT_URL
    if not _is_server_url(url):
        raise UsageError(f"{url} is not the http://, https:// or unix:///PATH URL of a server")
    return url.rstrip("/")


def _is_server_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            return not parts.netloc and len(parts.path) > 1 and parts.path.startswith("/") and "\0" not in url
        name = (parts.hostname or "").encode("idna")
        return parts.scheme in {"http", "https"} and url.isascii() and bool(name) and parts.port != 0
    except ValueError:  # an incomplete IPv6 address, an invalid port, a host name that is too long
        return False


def call(
    url: str,
    path: str,
    content: Mapping[str, object] | None = None,
    *,
    answer: type[Answer],
    timeout: float = TIMEOUT,
    signed: bool = True,
    invocation: str = "",
    headers: Mapping[str, str] | None = None,
    method: str | None = None,
) -> Answer:
    """Send a request and return the response as a value of the type `answer`.

    `method` None: POST with content, GET without.

    The request is signed if `signed` and the environment has a key. `timeout`: of each network operation, in seconds.
    `invocation`: with it a repeated SubmitJob has no further effect; empty: none. `headers`: further ones.
    Raises Invalid, with the server's message, if the server refuses the request; ServerUnavailable for a 5xx or 429
    response, and if batchq does not respond; UsageError for an unreadable bundle of certificates.
    """
    more = dict(headers or {}) | ({INVOCATION: invocation} if invocation else {})
    with _open(url, path, content, timeout=timeout, signed=signed, more=more, method=method) as response:
        return to_answer(_parse(response.read(MAX_RESPONSE), url), answer, url=url)


def to_answer(document: object, answer: type[Answer], *, url: str) -> Answer:
    """The JSON as a value of the type. Raises ServerUnavailable for JSON that is not such a response."""
    try:
        return convert(document, answer)
    except ValidationError as why:
        raise ServerUnavailable(f"the server at {url} is not batchq, or is of another version: {why}") from None


@contextmanager
def stream_responses(
    url: str, path: str, content: Mapping[str, object], *, timeout: float
) -> Iterator[Iterator[Document]]:
    """The objects of an NDJSON response to a POST, each as soon as it arrives.

    `timeout`: of each network operation, in seconds. Raises the errors of `call`, also while the objects are read.
    """
    with _open(url, path, content, timeout=timeout, signed=True, more={}) as response:
        if response.headers.get_content_type() != NDJSON:
            raise ServerUnavailable(f"the server at {url} is not batchq")
        yield _objects(response, url)


def _objects(response: HTTPResponse, url: str) -> Iterator[Document]:
    while line := response.readline(MAX_LINE):
        if not line.endswith(b"\n"):
            raise ServerUnavailable(f"the response of {url} is incomplete")
        yield _parse(line, url)


@contextmanager
def _open(
    url: str,
    path: str,
    content: Mapping[str, object] | None,
    *,
    timeout: float,
    signed: bool,
    more: Mapping[str, str],
    method: str | None = None,
) -> Iterator[HTTPResponse]:
    """The response; `more` are further headers of the request."""
    body = None if content is None else json.dumps(content).encode()
    target = (AT_SOCKET if is_unix_url(url) else url) + path
    method = method or ("GET" if body is None else "POST")
    headers = _headers(method, target, body, signed=signed and not is_unix_url(url), more=more)
    request = Request(target, data=body, headers=headers, method=method)  # noqa: S310 - see url_of
    try:
        with _opener(url).open(request, timeout=timeout) as response:
            yield response
    except HTTPError as refused:
        with refused:
            raise _error_of(refused, url) from None
    except IncompleteRead:
        raise ServerUnavailable(f"the response of {url} is incomplete") from None
    except (OSError, HTTPException) as failure:
        why = getattr(failure, "reason", None) or str(failure) or type(failure).__name__
        if isinstance(why, SSLCertVerificationError):
            why = why.verify_message + (TRUST_HINT if why.verify_code in UNKNOWN_AUTHORITY else "")
        if isinstance(why, ConnectionRefusedError | FileNotFoundError):  # nothing listens there
            why = f"{why.strerror}; start one by batchq serve, or name another by --url or BATCHQ_URL"
        raise ServerUnavailable(f"cannot reach a batchq server at {url}: {why}") from None


class WebSocketRequest(NamedTuple):
    """What a client of WebSockets needs for a request that `call` would send."""

    url: str
    headers: Mapping[str, str]
    #: The path of the unix socket; None: TCP.
    socket: str | None
    #: None: no TLS.
    tls: SSLContext | None
    #: Whether the proxies of the environment apply.
    uses_proxies: bool


def websocket_request(url: str, path: str) -> WebSocketRequest:
    """A signed GET of a WebSocket. Raises UsageError for an unreadable bundle of certificates."""
    is_unix = is_unix_url(url)
    target = (AT_SOCKET if is_unix else url) + path
    return WebSocketRequest(
        url=target,
        headers=_headers("GET", target, None, signed=not is_unix, more={}),
        socket=urlsplit(url).path if is_unix else None,
        tls=_tls_context() if url.startswith("https:") else None,
        uses_proxies=not is_unix and not _is_loopback(url),
    )


def is_unix_url(url: str) -> bool:
    """Whether a server's URL is that of a unix socket."""
    return url.startswith("unix:")


def _opener(url: str) -> OpenerDirector:
    if is_unix_url(url):
        return build_opener(ProxyHandler({}), _RefuseRedirects, _UnixHandler(urlsplit(url).path))
    # ProxyHandler() reads http_proxy, https_proxy and no_proxy. Loopback is never behind a proxy: the proxy would
    # connect to its own loopback.
    handlers = (ProxyHandler({} if _is_loopback(url) else None), _RefuseRedirects)
    if url.startswith("http:"):
        return build_opener(*handlers)  # loading the system's certificates takes longer than the call
    return build_opener(*handlers, HTTPSHandler(context=_tls_context()))


def _is_loopback(url: str) -> bool:
    name = urlsplit(url).hostname or ""
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _tls_context() -> SSLContext:
    bundle = os.environ.get(BUNDLE) or None
    try:
        return create_default_context(cafile=bundle)
    except OSError:  # of which SSLError is a subclass
        raise UsageError(f"{bundle} is not a PEM file of certificates") from None


class _UnixConnection(HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, host: str, *, path: str, timeout: float) -> None:
        super().__init__(host, timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except OSError:
            self.close()
            raise


class _UnixHandler(HTTPHandler):
    """Sends all requests to a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def http_open(self, req: Request) -> HTTPResponse:
        def connection(host: str, *, timeout: float, **_: object) -> HTTPConnection:
            return _UnixConnection(host, path=self._path, timeout=timeout)

        response: HTTPResponse = self.do_open(connection, req)  # type: ignore[arg-type] # it takes any callable
        return response


class _RefuseRedirects(HTTPRedirectHandler):
    """Follows no redirect: a signature is valid for one server."""

    def redirect_request(self, *_: object) -> None:
        pass


def _headers(method: str, url: str, body: bytes | None, *, signed: bool, more: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of a request, signed with the key in the variables of AWS's tools, if there is one."""
    headers = {"Content-Type": "application/json", **more}
    key, secret = os.environ.get(KEY), os.environ.get(SECRET)
    if not signed or not key or not secret:
        return headers
    signing_key = SigningKey(key, secret, os.environ.get(REGION) or "us-east-1", "batch")
    return signed_headers(signing_key, method=method, url=url, headers=headers, body=body or b"", now=now())


def _error_of(refused: HTTPError, url: str) -> Invalid | ServerUnavailable:
    """The error for an HTTP error response; ServerUnavailable if the request may be repeated later."""
    code = refused.headers.get("x-amzn-ErrorType", "")
    message = str(_parse(refused.read(MAX_RESPONSE), url).get("message") or refused.reason)
    if wrapped := _WRAPPED.fullmatch(message):
        message = wrapped[1].removesuffix(".")
    if "Signature" in code or "AuthenticationToken" in code:
        message = f"{message.rstrip('.')}: {KEY_HINT}"
    is_temporary = refused.code >= HTTPStatus.INTERNAL_SERVER_ERROR or refused.code == HTTPStatus.TOO_MANY_REQUESTS
    return ServerUnavailable(message) if is_temporary else Invalid(message)


def _parse(body: bytes, url: str) -> Document:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ServerUnavailable(f"the server at {url} is not batchq")
    return content


class Patience:
    """Repeats requests once the server has responded to the first one, and reports the interruption on stderr."""

    def __init__(
        self,
        *,
        deadline: float | None = None,
        has_responded: bool = False,
        notify: Callable[[str], None] = print_notice,
    ) -> None:
        """`deadline`: of `elapsed`, after which no request is repeated; None: never.

        `has_responded`: whether the server has responded to a request before. `notify`: reports the interruption.
        """
        self._deadline = deadline
        self._has_responded = has_responded
        self._notify = notify

    def call(self, request: Callable[[], Result]) -> Result:
        """The result of the request. Raises ServerUnavailable before the first response, and after the deadline."""
        pause, is_away = FIRST_PAUSE, False
        while True:
            try:
                result = request()
            except ServerUnavailable as unavailable:
                if not self._has_responded or (self._deadline is not None and elapsed() >= self._deadline):
                    raise
                if not is_away:
                    self._notify(f"{unavailable}; waiting for the server")
                is_away = True
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if is_away:
                    self._notify("the server responds again")
                self._has_responded = True
                return result
