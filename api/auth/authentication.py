"""Authentication of callers, limits of each user's requests, and authorization. Decisions 0020, 0032, 0048.

Also parses the credential of a request (access key and region), whether or not its signature is verified.
"""

import asyncio
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.accounts.files import user_name
from batchq.api.auth.sessions import LoginCodes, LoginRequired, Sessions, login_path
from batchq.api.http.client_connection import is_confidential, is_local_request, is_unix_connection
from batchq.api.http.credentials import CredentialVerifier, Scheme, SignedRequest
from batchq.api.http.dialect_profiles import PROFILE
from batchq.api.http.http import REQUEST_ID, HttpRefusal, read_body
from batchq.api.http.unix_socket import PeerNames, peer_uid
from batchq.domain.access.accounts import Caller, Directory, Permission, UserName
from batchq.domain.enums import Role
from batchq.errors import BatchqError, Invalid, Throttled, Unavailable
from batchq.system.throttling import ConcurrencyLimit, RateLimiter

log = logging.getLogger(__name__)
_CREDENTIAL = re.compile(
    r"Credential=([\w.+=@-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]{1,32}/aws4_request(?![^,\s])"
)


class Credential(Struct, frozen=True, kw_only=True):
    """The credential of a request."""

    #: Empty if the request is not signed.
    access_key: str = ""
    #: None if the request is not signed.
    region: str | None = None


def parse_credential(authorization: str) -> Credential:
    """Parse the credential of an Authorization header. The signature is not verified."""
    found = _CREDENTIAL.search(authorization)
    return Credential() if found is None else Credential(access_key=found[1], region=found[2])


Gate = Callable[[web.Request], AbstractAsyncContextManager[None]]
"""Admits a request while it is handled. Entering raises HttpRefusal, or Throttled."""

GATE: web.RequestKey[Gate] = web.RequestKey("gate")
"""The gate that admitted a request. A long response enters it again, to find out whether it would still admit it."""

CALLER = web.RequestKey("caller", Caller)
"""The caller of an authenticated request. Absent in an unsigned /healthz request, whose reply has the status only."""

HEALTH = "/healthz"  # needs no signature: a monitoring system may have no key
LIVE, READY = "/livez", "/readyz"  # need no signature, and reply with one word
METRICS = "/metrics"  # needs no signature: its handler checks the metrics token
_UNSIGNED = frozenset({LIVE, READY, METRICS})
MAX_CONCURRENT_REQUESTS = 32  # requests of one user that are handled at the same time
_NO_USER = "The user of this access key does not exist."
_NO_KEYS = "The server cannot read its access keys; its log has the cause."


class Callers:
    """Finds the caller of an access key. Results are cached until accounts or users change."""

    def __init__(self, *, directory: Callable[[], Directory], user_of: Callable[[str], UserName | None]) -> None:
        self._directory = directory
        self._user_of = user_of
        self._cached_directory: Directory | None = None
        self._callers: dict[str, Caller] = {}

    def find(self, key: str) -> Caller | None:
        """Return the caller; None for a key whose user has been deleted."""
        current = self._directory()
        if current is not self._cached_directory:
            self._cached_directory, self._callers = current, {}
        if key not in self._callers:
            user = self._user_of(key)
            caller = None if user is None else current.caller(user, key=key)
            if caller is None:
                return None
            self._callers[key] = caller
        return self._callers[key]


class Throttle:
    """Limits each user to `rate` requests a second on average, and to MAX_CONCURRENT_REQUESTS at the same time."""

    def __init__(self, *, rate: float, now: Callable[[], datetime]) -> None:
        self._rate = rate
        self._limiter = RateLimiter[str](now)
        self._at_once = ConcurrencyLimit[str](at_once=MAX_CONCURRENT_REQUESTS, waiting=0)

    def take_token(self, user: str) -> None:
        """Take a token of the user's bucket. Raises Throttled.

        Call it after the signature was verified: buckets for arbitrary names would fill memory.
        """
        if self._limiter.take({user: self._rate}) is not None:
            raise Throttled("Rate exceeded")

    def limit_concurrency(self, user: str) -> AbstractAsyncContextManager[None]:
        """Count a request while it is handled. Entering raises Throttled."""
        return self._at_once.of(user)


class KeyAuthentication(Struct, frozen=True, kw_only=True):
    """How the holders of access keys are authenticated."""

    verifier: CredentialVerifier
    throttle: Throttle
    callers: Callers
    #: Of the web console.
    sessions: Sessions
    codes: LoginCodes


def gate(keys: KeyAuthentication, *, now: Callable[[], datetime]) -> Gate:
    """Return the gate of a server that requires credentials. No body is parsed before its credential is verified."""

    @asynccontextmanager
    async def authenticated(request: web.Request) -> AsyncIterator[None]:
        unsigned_health = request.raw_path == HEALTH and "Authorization" not in request.headers
        if unsigned_health or request.raw_path in _UNSIGNED or request[PROFILE].is_public(request.path):
            yield
            return
        key, caller = await authenticate(request)
        keys.throttle.take_token(key if caller is None else caller.user)
        if caller is None:
            log.warning("request %s: the user of access key %s has been deleted", request[REQUEST_ID], key)
            raise access_denied(_NO_USER)
        async with keys.throttle.limit_concurrency(caller.user):
            request[CALLER] = replace(caller, request_id=request[REQUEST_ID], requested_at=now())
            yield

    async def authenticate(request: web.Request) -> tuple[str, Caller | None]:
        schemes = request[PROFILE].schemes
        with reading_keys(request):
            if Scheme.SESSION in schemes:
                key = _session_key(request, keys.sessions)
            else:
                sent = await _signed_request(request)
                key = keys.verifier.verify(sent, schemes=schemes, confidential=is_confidential(request.transport))
            return key, keys.callers.find(key)

    return authenticated


async def is_still_admitted(request: web.Request) -> bool:
    """Whether the request would be admitted now, with a caller who sees the same jobs. For responses without an end.

    A signature is valid for a few minutes, so a signed request is admitted no longer than that.
    """
    visibility = request[CALLER].visibility
    try:
        async with request[GATE](request):
            return request[CALLER].visibility == visibility
    except BatchqError:
        return False


@contextmanager
def reading_keys(request: web.Request) -> Iterator[None]:
    """Translate Unavailable of a file of keys or accounts: its text has the path, which is logged and not sent."""
    try:
        yield
    except Unavailable as why:
        log.warning("request %s: %s", request[REQUEST_ID], why)
        raise HttpRefusal(_NO_KEYS, status=HTTPStatus.INTERNAL_SERVER_ERROR, code="ServerException") from None


async def _signed_request(request: web.Request) -> SignedRequest:
    headers = tuple(request.headers.items())
    return SignedRequest(method=request.method, target=request.raw_path, headers=headers, body=await read_body(request))


def _session_key(request: web.Request, sessions: Sessions) -> str:
    """The id of the access key of the session. Raises LoginRequired."""
    session = sessions.find(request.headers.getall("Cookie", ()), local=is_local_request(request))
    if session is None:
        raise LoginRequired(login=login_path(request.raw_path) if _wants_page(request) else None)
    return session.key


def _wants_page(request: web.Request) -> bool:
    """Whether the response is shown as a page. A script's request for a part of a page is not redirected."""
    navigates = request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
    return request.method in {"GET", "HEAD"} and navigates and "X-Fragment" not in request.headers


class SocketUsers:
    """Finds the caller for the uid of a process that connected to the unix socket."""

    def __init__(self, *, names: PeerNames, directory: Callable[[], Directory], accounts: bool) -> None:
        """`accounts`: whether only users of the directory are admitted, each with its role.

        Otherwise all users are admitted, as admins.
        """
        self._names = names
        self._directory = directory
        self._accounts = accounts

    async def find(self, uid: int) -> Caller:
        """Raises HttpRefusal (403) for a user who is not admitted, and Unavailable if the accounts cannot be read."""
        cached = self._names.cached(uid)
        name = cached[0] if cached is not None else await asyncio.to_thread(self._names.look_up, uid)
        if name is None:
            raise access_denied(f"The uid {uid} has no user name on this machine.")
        if not self._accounts:
            return Caller(user=_valid(name), role=Role.ADMIN)
        caller = self._directory().caller(UserName(name))
        if caller is None:
            hint = f"An operator or an admin can add the user: batchq user add {name}"
            raise access_denied(f"{name} is a user of this machine, but not of this server. {hint}")
        return replace(caller, uid=uid)


def socket_gate(users: SocketUsers, throttle: Throttle, *, now: Callable[[], datetime]) -> Gate:
    """Return the gate of a unix socket: the caller is the user of the process that connected."""

    @asynccontextmanager
    async def by_peer(request: web.Request) -> AsyncIterator[None]:
        if request.raw_path in _UNSIGNED:
            yield
            return
        uid = _uid_of(request)
        with reading_keys(request):
            caller = await users.find(uid)
        throttle.take_token(caller.user)
        async with throttle.limit_concurrency(caller.user):
            request[CALLER] = replace(caller, request_id=request[REQUEST_ID], requested_at=now())
            yield

    return by_peer


def _valid(name: str) -> UserName:
    try:
        return user_name(name)
    except Invalid as why:
        raise access_denied(f"{name!r} cannot be a user of this server: {why}.") from None


def _uid_of(request: web.Request) -> int:
    """The uid of the process that connected. Raises HttpRefusal if the connection is closed already."""
    try:
        if request.transport is not None and is_unix_connection(request.transport):
            return peer_uid(request.transport.get_extra_info("socket"))
    except OSError:
        pass
    raise access_denied("The user of the connected process is not known.")


def open_gate(user: UserName, *, now: Callable[[], datetime]) -> Gate:
    """Return the gate of a server without authentication: every request is made by `user`, as an ADMIN."""
    owner = Caller(user=user, role=Role.ADMIN)

    @asynccontextmanager
    async def unauthenticated(request: web.Request) -> AsyncIterator[None]:
        request[CALLER] = replace(owner, request_id=request[REQUEST_ID], requested_at=now())
        yield

    return unauthenticated


def require(caller: Caller, permission: Permission, operation: str) -> None:
    """Raise HttpRefusal (403) unless the caller has the permission.

    The reply does not depend on the resources named in the request, so it does not reveal which exist.
    """
    if not caller.has(permission):
        log.warning("request %s: user %s may not %s", caller.request_id, caller.user, operation)
        raise PermissionMissing(f"User {caller.user} is not authorized to perform {operation}.")


class PermissionMissing(HttpRefusal):
    """The role of the caller does not permit the operation."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def access_denied(why: object) -> HttpRefusal:
    return HttpRefusal(str(why), status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")


def authorize(request: web.Request, permission: Permission, operation: str) -> Caller:
    """Return the caller, with `operation` set. Raises HttpRefusal (403) unless the caller has the permission."""
    require(request[CALLER], permission, operation)
    return replace(request[CALLER], operation=operation)


def check_metrics_token(request: web.Request, token: str | None) -> None:
    """Raise HttpRefusal (403) unless the request has the token; None: the server has none."""
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    if token is None:
        raise access_denied("This server requires a token for /metrics, and has none: serve --metrics-token-file FILE.")
    if scheme.lower() != "bearer" or not hmac.compare_digest(sent.strip().encode(), token.encode()):
        raise access_denied("The token of /metrics is missing or wrong.")
