"""The addresses to which webhooks may connect: public ones, and the hosts that the operator names.

A user chooses the URL of a webhook, and the server sends the request. So without these rules a user could reach
services that only the server can reach: of its machine, of its network, of its cloud (server-side request forgery).
"""

import ipaddress
from collections.abc import Collection

from yarl import URL

from batchq.errors import Invalid

MAX_URL = 2048
PORTS = {"https": 443, "http": 80}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: IPv6 addresses whose last 32 bits are the IPv4 address to which a gateway connects (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
#: What `ipaddress` takes for public: IETF assignments with Oracle's metadata, Azure's host, gateways of 6to4, examples.
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "192.88.99.0/24", "3fff::/20")))


def is_public(text: str) -> bool:
    """Whether this is an address of the public internet, as is each IPv4 address that it contains."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return all(map(_is_global, _connected(address)))


def _is_global(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False
    is_usual = address.is_global and not address.is_multicast and not address.is_reserved
    return is_usual and not any(address in network for network in _NOT_PUBLIC)


def _connected(address: Address) -> list[Address]:
    """The addresses that a connection to this one may reach."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    inner = [address.sixtofour, *(address.teredo or ())]
    return [address, *(each for each in inner if each is not None)]


def is_listed(url: URL, hosts: Collection[str]) -> bool:
    """Whether the operator permits the host, or this port of it, wherever its name leads. `hosts`: in lower case."""
    host = (url.host or "").lower()
    named = f"[{host}]" if ":" in host else host
    return host in hosts or named in hosts or f"{named}:{url.port}" in hosts


def parse_url(text: str, hosts: Collection[str]) -> URL:
    """The URL of a webhook. Raises Invalid for one to which no request is sent. The text repeats no secret of it."""
    if len(text) > MAX_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise Invalid(f"The URL of a webhook must have at most {MAX_URL} printable ASCII characters without spaces.")
    try:
        url = URL(text)
        host, port = url.host, url.port  # the host is decoded here: `xn--` begins a name that may have no decoding
    except ValueError:
        raise Invalid("The URL of the webhook is not valid.") from None
    if url.scheme not in PORTS or not host or not port:
        raise Invalid("The URL of a webhook must begin with https:// and name a host.")
    if url.user is not None or url.password is not None:
        raise Invalid("The URL of a webhook must contain no user name: use a token.")
    if url.fragment:
        raise Invalid("The URL of a webhook must have no fragment.")
    if is_listed(url, hosts):
        return url
    if url.scheme != "https":
        raise Invalid(f"The URL of a webhook must begin with https://, except for hosts of --webhook-hosts: {host}")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return url
    if not is_public(host):
        raise Invalid(f"The address {host} is not public, and not one of --webhook-hosts.")
    return url


def origin(text: str) -> str:
    """The scheme, the host and the port of a URL. The rest often contains a secret."""
    return str(URL(text).origin())
