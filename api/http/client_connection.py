"""What the connection of a request shows of its client: the address, and whether others can read the connection."""

import asyncio
import re
from ipaddress import IPv6Address, ip_address
from socket import AF_UNIX

from aiohttp import web

from batchq.api.http.unix_socket import peer_uid

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(?::\d{1,5})?", re.IGNORECASE)


def host_name(host: str) -> str | None:
    """The name in a Host header, in lower case and without the port; None for an invalid header."""
    name = _HOST.fullmatch(host)
    return None if name is None else name[1].lower()


def client_address(transport: asyncio.BaseTransport) -> str:
    """The address by which a client is counted; for IPv6 its /64 network, because one client has all of it.

    For a unix socket the uid of the client's process.
    """
    if is_unix_connection(transport):
        return f"uid {peer_uid(transport.get_extra_info('socket'))}"
    peer = transport.get_extra_info("peername")
    host = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))


def is_unix_connection(transport: asyncio.BaseTransport) -> bool:
    """Whether a connection is one of a unix socket."""
    connected = transport.get_extra_info("socket")
    return connected is not None and connected.family == AF_UNIX


def is_confidential(transport: asyncio.BaseTransport | None) -> bool:
    """Whether a connection is encrypted, or does not leave this machine. A proxy's own client may be elsewhere."""
    return transport is not None and (_has_tls(transport) or _is_loopback(transport))


def is_local_request(request: web.Request) -> bool:
    """Whether a browser of this machine sent the request without TLS: both ends, and the name of the server, are local.

    A request that a proxy passed on has another name in its Host header.
    """
    transport = request.transport
    if transport is None or _has_tls(transport):
        return False
    return _is_loopback(transport) and host_name(request.host) in LOOPBACK


def _has_tls(transport: asyncio.BaseTransport) -> bool:
    return transport.get_extra_info("sslcontext") is not None


def _is_loopback(transport: asyncio.BaseTransport) -> bool:
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple) or not peer:
        return False
    address = ip_address(str(peer[0]).partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
