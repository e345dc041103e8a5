"""How a server listens, as its settings say: on TCP, on a unix socket, or on both, and who may call it there."""

import logging
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket

from msgspec import Struct

from batchq.accounts.files import AccessKeyFile, AccountsFile, machine_user
from batchq.api.auth.authentication import (
    Callers,
    Gate,
    KeyAuthentication,
    SocketUsers,
    Throttle,
    gate,
    open_gate,
    socket_gate,
)
from batchq.api.auth.sessions import LoginCodes, Sessions
from batchq.api.http.credentials import CredentialVerifier
from batchq.api.http.tls import Certificate
from batchq.api.http.unix_socket import OWNER_ONLY, WITH_GROUP, PeerNames, SocketFile, listening
from batchq.api.serving.server import LIMITS, ConnectionLimits
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Role
from batchq.errors import StartImpossible
from batchq.ports.clock import Clock
from batchq.settings import Auth, Settings
from batchq.system.clock import wall_time
from batchq.system.host import connection_limit, is_loopback, listen
from batchq.system.service_manager import InheritedSockets, inherited_sockets

log = logging.getLogger(__name__)

DRAIN = 5.0  # seconds at shutdown for requests in progress


class Listeners(Struct, frozen=True, kw_only=True):
    """The listening sockets of a server: one of them at least."""

    tcp: socket | None
    #: None without TLS.
    certificate: Certificate | None
    local: socket | None
    #: The file of `local`.
    file: SocketFile | None
    #: Whether each caller is authenticated, and is a user of accounts.json.
    has_accounts: bool


class GatedListener(Struct, frozen=True, kw_only=True):
    """A listening socket, with the authentication of its requests."""

    listener: socket
    gate: Gate
    #: Whether the gate requires signatures.
    signed: bool
    certificate: Certificate | None = None
    #: The file of a unix socket; None for TCP.
    path: Path | None = None


def with_inherited_sockets(settings: Settings) -> tuple[Settings, InheritedSockets]:
    """The sockets of the service manager, and the settings with the file of its unix socket as `socket`.

    Raises StartImpossible for settings that contradict the sockets, and the errors of `inherited_sockets`.
    """
    inherited = inherited_sockets()
    if inherited.tcp is not None and settings.no_tcp:
        raise StartImpossible("the service manager passes a socket of TCP, and --no-tcp is set")
    if inherited.path is None:
        return settings, inherited
    if settings.socket not in {None, inherited.path} or settings.socket_group or settings.socket_mode:
        raise StartImpossible(
            f"the service manager passes the unix socket {inherited.path}: remove --socket, --socket-group and "
            "--socket-mode, and set SocketGroup= and SocketMode= in its unit"
        )
    return settings.model_copy(update={"socket": inherited.path}), inherited


@contextmanager
def open_listeners(settings: Settings, inherited: InheritedSockets) -> Iterator[Listeners]:
    """The listening sockets. Clients that connect before the server is ready wait until it is.

    A TCP socket of the service manager takes the place of `host` and `port`; `with_inherited_sockets` has set the file
    of its unix socket. Raises StartImpossible for settings that contradict each other; the errors of `listen` and
    `listening`.
    """
    check_listen_address(settings, settings.host if inherited.tcp is None else inherited.tcp.getsockname()[0])
    has_accounts = uses_accounts(settings)
    file = socket_file(settings, inherited.path, has_accounts=has_accounts)
    certificate = None if settings.no_tcp else make_certificate(settings)
    with ExitStack() as stack:
        tcp = None if settings.no_tcp else inherited.tcp or listen(settings.host, settings.port)
        local = inherited.unix
        if tcp is not None:
            stack.enter_context(tcp)
        if local is not None:
            stack.enter_context(local)
        elif file is not None:
            local = stack.enter_context(listening(file))
        yield Listeners(tcp=tcp, certificate=certificate, local=local, file=file, has_accounts=has_accounts)


def with_gates(
    listeners: Listeners, settings: Settings, clock: Clock, keys: KeyAuthentication | None
) -> Iterator[GatedListener]:
    """The listeners with their gates, TCP first; both limit the requests of a user together.

    `keys`: of TCP; None if its requests are not authenticated.
    """
    throttle = make_throttle(settings, clock) if keys is None else keys.throttle
    if listeners.tcp is not None:
        tcp_gate = open_gate(machine_user(), now=clock.now) if keys is None else gate(keys, now=clock.now)
        signed = keys is not None
        yield GatedListener(listener=listeners.tcp, gate=tcp_gate, signed=signed, certificate=listeners.certificate)
    if listeners.local is not None and listeners.file is not None:
        directory = AccountsFile(settings.data).load
        users = SocketUsers(names=PeerNames(clock.now), directory=directory, accounts=listeners.has_accounts)
        local_gate = socket_gate(users, throttle, now=clock.now)
        yield GatedListener(listener=listeners.local, gate=local_gate, signed=False, path=listeners.file.path)


def check_listen_address(settings: Settings, host: str) -> None:
    """Raise StartImpossible for a `host` beyond loopback without authentication, unless `insecure_no_auth` is set.

    Without authentication every process that can connect to the port may do everything.
    """
    open_to_all = settings.auth is Auth.NONE and not settings.insecure_no_auth
    if open_to_all and not settings.no_tcp and not is_loopback(host):
        raise StartImpossible(
            f"{host} is not a loopback address, and requests are not authenticated: "
            "listen on 127.0.0.1, or set --auth sigv4, or --insecure-no-auth"
        )


def uses_accounts(settings: Settings) -> bool:
    """Whether each caller is authenticated, and is a user of accounts.json. Raises Unavailable.

    If not, every caller is an admin. Decided when the server starts: if the file is lost later, no user is admitted.
    """
    return settings.auth is not Auth.NONE or (settings.no_tcp and bool(AccountsFile(settings.data).load().users))


def caller_reader(settings: Settings) -> Callable[[Caller], Caller | None]:
    """A function that reads the present rights of a caller, for what lasts longer than a request.

    It returns None if the user or the access key is no longer valid, and raises Unavailable if a file of keys or
    accounts cannot be used.
    """
    if not uses_accounts(settings):
        return lambda caller: caller
    keys, users = AccessKeyFile(settings.data), AccountsFile(settings.data)

    def present(caller: Caller) -> Caller | None:
        if caller.key and keys.user_of(caller.key) != caller.user:
            return None
        return users.load().caller(caller.user, key=caller.key)

    return present


def socket_file(settings: Settings, inherited: Path | None, *, has_accounts: bool) -> SocketFile | None:
    """The file of the unix socket; None without one. `inherited`: the file that the service manager created.

    Raises StartImpossible for flags that need a socket, and for a socket on which every user of the machine would be an
    admin, unless `insecure_no_auth` is set.
    """
    if settings.socket is None:
        if settings.no_tcp or settings.socket_group or settings.socket_mode:
            raise StartImpossible("--no-tcp, --socket-group and --socket-mode need --socket")
        return None
    mode = int(settings.socket_mode, 8) if settings.socket_mode else WITH_GROUP if settings.socket_group else OWNER_ONLY
    if inherited is not None:
        mode = stat.S_IMODE(inherited.stat().st_mode)
    if mode & 0o006 and not has_accounts and not settings.insecure_no_auth:
        raise StartImpossible(
            f"every user of this machine could connect to {settings.socket} as an admin: set another --socket-mode, "
            "or --auth sigv4, so that only users of accounts.json are admitted, or --insecure-no-auth"
        )
    if not has_accounts:
        log.warning("every user who can connect to %s is an admin, because accounts are not in use", settings.socket)
        if AccountsFile(settings.data).load().users:
            log.warning("the users of accounts.json apply with --auth sigv4, or with --no-tcp")
    return SocketFile(path=settings.socket, group=settings.socket_group, mode=mode)


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits of each listener; two listeners share the process's open files."""
    listeners = 1 if settings.socket is None or settings.no_tcp else 2
    connections = connection_limit(listeners * LIMITS.connections) // listeners
    per_address = settings.connections_per_address or connections // 2
    return ConnectionLimits(connections=connections, per_address=per_address, drain_timeout=DRAIN)


def make_certificate(settings: Settings) -> Certificate | None:
    """The certificate of the server; None without TLS. Raises StartImpossible if only one of its two files is given."""
    match settings.tls_cert, settings.tls_key:
        case Path() as chain, Path() as key:
            return Certificate(chain=chain, key=key)
        case None, None:
            if not is_loopback(settings.host):
                log.warning("requests to %s and their responses are not encrypted: set --tls-cert", settings.host)
            return None
        case _:
            raise StartImpossible("--tls-cert and --tls-key must be set together")


def make_throttle(settings: Settings, clock: Clock) -> Throttle:
    return Throttle(rate=settings.requests_per_second, now=clock.now)


def authentication(settings: Settings, clock: Clock, *, instance: str) -> KeyAuthentication | None:
    """The authentication of requests on TCP; None if they are not authenticated, or there is no TCP.

    Raises Unavailable if a file of keys or accounts cannot be used.
    """
    if settings.auth is Auth.NONE or settings.no_tcp:
        return None
    keys, users = AccessKeyFile(settings.data), AccountsFile(settings.data)
    if not keys.all():
        log.warning("there are no access keys, so all requests are rejected: batchq key create --user NAME")
    admins = sorted(user.name for user in users.load().users.values() if user.role is Role.ADMIN)
    log.info("users with the role ADMIN: %s", ", ".join(admins) or "none")
    return KeyAuthentication(
        verifier=CredentialVerifier(find=keys.find, now=wall_time),
        throttle=make_throttle(settings, clock),
        callers=Callers(directory=users.load, user_of=keys.user_of),
        sessions=Sessions(find=keys.find, instance=instance, now=wall_time),
        codes=LoginCodes(clock.now),
    )
