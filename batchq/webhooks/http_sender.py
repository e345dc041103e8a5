"""The HTTP client of webhooks: each connection goes to an address that was checked when its socket was made.

The check is at the socket, behind the look-up of names: a name that leads to a public address at one look-up and to a
private one at the next (DNS rebinding) gains nothing. Redirects are not followed, nothing of an answer is kept but its
status, and each try has a time limit.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from http import HTTPStatus
from threading import Thread
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from batchq import __version__
from batchq.domain.access.accounts import UserName
from batchq.domain.enums import DeliveryVerdict
from batchq.domain.webhooks import DeliveryOutcome
from batchq.errors import Invalid, Throttled
from batchq.ports.webhooks import OutgoingRequest
from batchq.system.throttling import ConcurrencyLimit
from batchq.webhooks.addresses import is_listed, is_public, parse_url

TIMEOUT = 15.0  # seconds of one try
DRAIN_TIMEOUT = 2.0  # seconds for the rest of an answer, behind its headers
MAX_ANSWER = 64 * 1024  # bytes of an answer that are read; with more the connection is closed
LOOKUP_THREADS = 16
MAX_LOOKUPS = 4  # threads of the webhooks of one user
MAX_WAITING_LOOKUPS = 64  # of the webhooks of one user; more are refused
NOT_PERMITTED = "its address is not public, and its host not one of --webhook-hosts"

#: Answers to the content of a request: another event may be accepted.
_REJECTIONS = {
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
}

log = logging.getLogger(__name__)

#: The user for whom the present task sends. A look-up runs in a task that aiohttp makes with a copy of the context.
_USER: ContextVar[UserName] = ContextVar("webhook_user")


class HttpSender:
    """A WebhookSender of aiohttp."""

    def __init__(self, hosts: tuple[str, ...] = (), *, timeout: float = TIMEOUT) -> None:
        """`hosts`: names, addresses, and either with a port, that are permitted wherever they lead, also by http."""
        self._hosts = frozenset(host.lower() for host in hosts)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._resolver = _Resolver()
        #: By whether the host is one of `hosts`.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    def check_url(self, url: str) -> None:
        parse_url(url, self._hosts)

    async def send(self, request: OutgoingRequest, *, user: UserName) -> DeliveryOutcome:
        _USER.set(user)
        try:
            url = parse_url(request.url, self._hosts)
        except Invalid as refusal:  # the operator permits the host no longer
            return _failure(str(refusal))
        try:
            return await self._answer(url, request)
        except TimeoutError:
            return _failure(f"no answer in {self._timeout.total:.0f} s")
        except aiohttp.ClientConnectorError as failure:
            return _failure(f"{url.host} cannot be connected to: {_reason(failure)}")
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            return _failure(f"the request failed: {type(failure).__name__}")

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    async def _answer(self, url: URL, request: OutgoingRequest) -> DeliveryOutcome:
        sending = self._session(is_listed(url, self._hosts)).request(
            request.method,
            url,
            data=request.body,
            headers=request.headers,
            allow_redirects=False,
            timeout=self._timeout,
        )
        async with sending as answer:
            outcome = _outcome(answer)
            # The status decides. A connection whose answer is not read to its end is closed.
            with suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with asyncio.timeout(DRAIN_TIMEOUT):
                    await _drain(answer)
            return outcome

    def _session(self, is_exempt: bool) -> aiohttp.ClientSession:  # noqa: FBT001 - the key of the sessions
        if is_exempt not in self._sessions:
            connector = aiohttp.TCPConnector(
                limit=0,
                resolver=self._resolver,
                socket_factory=_new_socket if is_exempt else _checked_socket,
            )
            self._sessions[is_exempt] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"batchq/{__version__}"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._sessions[is_exempt]


class _Resolver(AbstractResolver):
    """Looks up names in threads of its own.

    A look-up of a name that a user chose may hang: it holds no thread of other parts, and does not delay the server's
    end, as the threads of a ThreadPoolExecutor do. It continues after its request was given up, so the threads of each
    user are limited too.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUP_THREADS)
        self._users = ConcurrencyLimit[UserName](at_once=MAX_LOOKUPS, waiting=MAX_WAITING_LOOKUPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            async with self._users.of(_USER.get()):
                found = await self._found(host, port, family)
        except Throttled:
            raise OSError("too many look-ups of names are in progress") from None
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, proto, _, address in found
        ]

    async def _found(self, host: str, port: int, family: socket.AddressFamily) -> list[Any]:
        await self._free.acquire()
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        try:
            Thread(target=self._look_up, args=(done, host, port, family), name="webhook-lookup", daemon=True).start()
        except RuntimeError as failure:  # the machine cannot start another thread
            self._free.release()
            raise OSError(str(failure)) from failure
        return await done

    async def close(self) -> None:
        """Do nothing: no connection is kept, and a thread ends with its look-up."""

    def _look_up(self, done: asyncio.Future[Any], host: str, port: int, family: socket.AddressFamily) -> None:
        """Runs in a thread. A reader that no longer waits gets nothing."""
        try:
            found: Any = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except (OSError, UnicodeError) as failure:
            found = failure if isinstance(failure, OSError) else OSError(str(failure))
        with suppress(RuntimeError):  # the event loop is closed
            done.get_loop().call_soon_threadsafe(self._finish, done, found)

    def _finish(self, done: asyncio.Future[Any], found: object) -> None:
        self._free.release()
        if done.done():
            return
        if isinstance(found, OSError):
            done.set_exception(found)
        else:
            done.set_result(found)


def _checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for an address. Raises PermissionError for an address that is not public."""
    if not is_public(str(address[4][0])):
        raise PermissionError(NOT_PERMITTED)
    return _new_socket(address)


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, proto, *_ = address
    return socket.socket(family=family, type=kind, proto=proto)


def _reason(failure: aiohttp.ClientConnectorError) -> str:
    """Why a connection failed. Of several addresses the text of a refused one comes first."""
    if NOT_PERMITTED in str(failure.os_error):
        return NOT_PERMITTED
    return failure.os_error.strerror or type(failure).__name__


def _failure(text: str) -> DeliveryOutcome:
    return DeliveryOutcome(verdict=DeliveryVerdict.FAILED, text=text)


def _outcome(answer: aiohttp.ClientResponse) -> DeliveryOutcome:
    status, text = answer.status, f"answered {answer.status}"
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return DeliveryOutcome(verdict=DeliveryVerdict.DELIVERED, text=text)
    if status == HTTPStatus.GONE:
        return DeliveryOutcome(verdict=DeliveryVerdict.GONE, text=text)
    if status in _REJECTIONS:
        return DeliveryOutcome(verdict=DeliveryVerdict.REJECTED, text=text)
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        text = f"{text}; redirects are not followed"
    after = answer.headers.get("Retry-After", "")
    wait = timedelta(seconds=int(after)) if after.isascii() and after.isdigit() and len(after) < len("100000") else None
    return DeliveryOutcome(verdict=DeliveryVerdict.FAILED, text=text, retry_after=wait)


async def _drain(answer: aiohttp.ClientResponse) -> None:
    """Read a short answer, so that its connection can be used again; close that of a longer one."""
    size = 0
    while size <= MAX_ANSWER:
        part = await answer.content.readany()
        if not part:
            return
        size += len(part)
    answer.close()
