"""Who may come in where requests are signed: whoever has a key, and each key only so often."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from http import HTTPStatus

from aiohttp import web

from api.http import REQUEST_ID, Refused, read
from api.signatures import Sent, Verifier
from batchq.domain.people import Caller, People, Role, UserName
from batchq.domain.replacing import replace
from batchq.errors import Unavailable

log = logging.getLogger(__name__)

Gate = Callable[[web.Request], Awaitable[None]]
"""Lets a request pass, or raises Refused."""

WHO = web.RequestKey("who", Caller)
"""Who makes the request. A request without it may know next to nothing."""

HEALTH = "/healthz"  # whoever watches over the server may have no key
BURST = 2.0  # seconds' worth of requests that a key may make at once, and one at least

_NO_USER = "The user of this key is not known to the server."
_NO_KEYS = "The keys of this server cannot be read; its log tells why."


class Buckets:
    """So many requests a second for each key, on average. `now` is any clock that does not go back."""

    def __init__(self, *, rate: float, now: Callable[[], datetime]) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST)
        self._now = now
        self._left: dict[str, tuple[float, datetime]] = {}

    def spend(self, key: str) -> None:
        """Only of keys that are known: the others would fill memory. Raises Refused."""
        now = self._now()
        left, at = self._left.get(key, (self._most, now))
        left = min(self._most, left + (now - at).total_seconds() * self._rate)
        if left < 1:
            raise Refused("Rate exceeded", status=HTTPStatus.TOO_MANY_REQUESTS, code="TooManyRequestsException")
        self._left[key] = left - 1, now


class Callers:
    """Who a key makes somebody. Who somebody is gets worked out once for as long as accounts and users are the same."""

    def __init__(self, *, people: Callable[[], People], user_of: Callable[[str], UserName | None]) -> None:
        self._people = people
        self._user_of = user_of
        self._as_of: People | None = None
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


def gate(verifier: Verifier, buckets: Buckets, callers: Callers, *, now: Callable[[], datetime]) -> Gate:
    """Nothing of a request is understood before its signature is."""

    async def check(request: web.Request) -> None:
        if request.raw_path == HEALTH and "Authorization" not in request.headers:
            return
        headers = tuple(request.headers.items())
        sent = Sent(method=request.method, target=request.raw_path, headers=headers, body=await read(request))
        try:
            key = verifier.verify(sent)
            who = callers.of(key)
        except Unavailable as why:  # whose file, and where it is, is not for strangers
            log.warning("request %s: %s", request[REQUEST_ID], why)
            raise Refused(_NO_KEYS, status=HTTPStatus.INTERNAL_SERVER_ERROR, code="ServerException") from None
        buckets.spend(key)
        if who is None:
            log.warning("request %s: the user of key %s is gone", request[REQUEST_ID], key)
            raise Refused(_NO_USER, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
        request[WHO] = replace(who, request_id=request[REQUEST_ID], asked_at=now())

    return check


def open_gate(user: UserName, *, now: Callable[[], datetime]) -> Gate:
    """The gate of a server that asks nobody who he is: whoever comes is its owner, and may do everything."""
    owner = Caller(user=user, role=Role.ADMIN)

    async def let_in(request: web.Request) -> None:
        request[WHO] = replace(owner, request_id=request[REQUEST_ID], asked_at=now())

    return let_in


def in_short(health: Mapping[str, object]) -> Mapping[str, object]:
    """What a stranger may know of it."""
    return {"status": health["status"]}
