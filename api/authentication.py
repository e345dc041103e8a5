"""Which requests are admitted where they are signed: those of a known key, and of each user only so many.

What the credential of a request says, checked or not: which key, and for which region.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.http import REQUEST_ID, HttpRefusal, read
from batchq.api.sigv4 import SignatureVerifier, SignedRequest
from batchq.domain.access.accounts import Caller, Directory, Role, UserName
from batchq.errors import TooOften, Unavailable
from batchq.throttling import ConcurrencyLimit, RateLimiter

_SCOPE = re.compile(r"Credential=([\w.+=@-]{1,128})/[0-9]{8}/([a-z0-9-]{1,32})/[a-z0-9-]{1,32}/aws4_request(?![^,\s])")


class Scope(Struct, frozen=True, kw_only=True):
    """`access_key` is empty and `region` None where the request is not signed."""

    access_key: str = ""
    region: str | None = None


def scope(authorization: str) -> Scope:
    """What the credential scope of an Authorization header tells."""
    found = _SCOPE.search(authorization)
    return Scope() if found is None else Scope(access_key=found[1], region=found[2])


log = logging.getLogger(__name__)

Gate = Callable[[web.Request], AbstractAsyncContextManager[None]]

"""Admits a request for as long as it is handled, or raises Refused or TooOften."""

WHO = web.RequestKey("who", Caller)

"""Who makes the request. A request without it may know next to nothing."""

HEALTH = "/healthz"  # whoever watches over the server may have no key

MAX_AT_ONCE = 32  # requests of one user

_NO_USER = "The user of this key is not known to the server."

_NO_KEYS = "The keys of this server cannot be read; its log tells why."


class Callers:
    """Who a key makes somebody. Who somebody is gets worked out once for as long as accounts and users are the same."""

    def __init__(self, *, people: Callable[[], Directory], user_of: Callable[[str], UserName | None]) -> None:
        self._people = people
        self._user_of = user_of
        self._as_of: Directory | None = None
        self._known: dict[str, Caller] = {}

    def of(self, key: str) -> Caller | None:
        """None for a key whose user is gone."""
        people = self._people()
        if people is not self._as_of:
            self._as_of, self._known = people, {}
        if key not in self._known:
            user = self._user_of(key)
            caller = None if user is None else people.caller(user, key=key)
            if caller is None:
                return None
            self._known[key] = caller
        return self._known[key]


class Throttle:
    """`rate` requests a second for each user, on average, and MAX_AT_ONCE of them at the same time."""

    def __init__(self, *, rate: float, now: Callable[[], datetime]) -> None:
        self._rate = rate
        self._limiter = RateLimiter[str](now)
        self._at_once = ConcurrencyLimit[str](at_once=MAX_AT_ONCE, waiting=0)

    def spend(self, user: str) -> None:
        """Only for users who are known: the others would fill memory. Raises TooOften."""
        if self._limiter.take({user: self._rate}) is not None:
            raise TooOften("Rate exceeded")

    def handling(self, user: str) -> AbstractAsyncContextManager[None]:
        """Raises TooOften when it is entered."""
        return self._at_once.of(user)


def gate(verifier: SignatureVerifier, throttle: Throttle, callers: Callers, *, now: Callable[[], datetime]) -> Gate:
    """Nothing of a request is understood before its signature is."""

    @asynccontextmanager
    async def admitted(request: web.Request) -> AsyncIterator[None]:
        if request.raw_path == HEALTH and "Authorization" not in request.headers:
            yield
            return
        key, who = await authenticate(request)
        throttle.spend(key if who is None else who.user)
        if who is None:
            log.warning("request %s: the user of key %s is gone", request[REQUEST_ID], key)
            raise HttpRefusal(_NO_USER, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
        async with throttle.handling(who.user):
            request[WHO] = replace(who, request_id=request[REQUEST_ID], asked_at=now())
            yield

    async def authenticate(request: web.Request) -> tuple[str, Caller | None]:
        headers = tuple(request.headers.items())
        sent = SignedRequest(method=request.method, target=request.raw_path, headers=headers, body=await read(request))
        try:
            key = verifier.verify(sent)
            return key, callers.of(key)
        except Unavailable as why:  # whose file, and where it is, is not for strangers
            log.warning("request %s: %s", request[REQUEST_ID], why)
            raise HttpRefusal(_NO_KEYS, status=HTTPStatus.INTERNAL_SERVER_ERROR, code="ServerException") from None

    return admitted


def open_gate(user: UserName, *, now: Callable[[], datetime]) -> Gate:
    """The gate of a server that asks nobody who he is: whoever comes is its owner, and may do everything."""
    owner = Caller(user=user, role=Role.ADMIN)

    @asynccontextmanager
    async def let_in(request: web.Request) -> AsyncIterator[None]:
        request[WHO] = replace(owner, request_id=request[REQUEST_ID], asked_at=now())
        yield

    return let_in


def in_short(health: Mapping[str, object]) -> Mapping[str, object]:
    """What a stranger may know of it."""
    return {"status": health["status"]}
