"""Recognises hosts that lead to the connecting machine itself or to its cloud's metadata service. Pure.

Only spellings of addresses and well-known names are recognised. `batchq.compute.docker.admission` resolves others.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from socket import inet_aton

Address = IPv4Address | IPv6Address

LOCAL_NAMES = ("localhost", "localdomain", "ip6-localhost", "ip6-loopback")
#: Metadata services of clouds that have no link-local address: AWS (IPv6), Azure, Alibaba.
METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "168.63.129.16", "100.100.100.200")))
_THIS_NETWORK = ip_network("0.0.0.0/8")
_IPV4_COMPATIBLE = ip_network("::/96")


def is_local(host: str) -> bool:
    """Whether the host is written as a loopback, link-local, multicast, unspecified or metadata address, or is local.

    All spellings that the C library accepts are recognised: IPv4 in decimal, octal, hexadecimal and with fewer than
    four parts, IPv4 inside IPv6, IPv6 with a zone. An empty host is local to the engine's log drivers.
    """
    name = host.strip("[]").partition("%")[0].rstrip(".").lower()
    if not name or name.rpartition(".")[2] in LOCAL_NAMES:
        return True
    address = _parsed(name)
    return address is not None and is_local_address(address)


def is_local_address(address: Address) -> bool:
    """Whether it is a loopback, link-local, multicast, unspecified or metadata address."""
    if isinstance(address, IPv6Address):
        address = _embedded(address) or address
    if isinstance(address, IPv4Address) and address in _THIS_NETWORK:
        return True
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in METADATA
    )


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 address, as in `::ffff:127.0.0.1`; None if there is none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 1
    return IPv4Address(int(address)) if is_compatible else None


def _parsed(name: str) -> Address | None:
    try:
        return IPv6Address(name) if ":" in name else IPv4Address(inet_aton(name))
    except (OSError, ValueError):
        return None
