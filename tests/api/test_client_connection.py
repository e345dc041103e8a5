"""The facts about the client of a connection: its address, and whether a browser of this machine sent the request."""

import pytest
from aiohttp.test_utils import make_mocked_request

from batchq.api.http.client_connection import client_address, host_name, is_confidential, is_local_request


class Transport:
    """A transport with this peer, with or without TLS."""

    def __init__(self, peer, *, tls=False):
        self._facts = {"peername": (peer, 1) if peer else None, "sslcontext": object() if tls else None}

    def get_extra_info(self, name):
        return self._facts.get(name)


ADDRESSES = {
    "127.0.0.1": "127.0.0.1",
    "::ffff:10.0.0.1": "10.0.0.1",
    "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
    "2001:db8:1:2:ffff::1": "2001:db8:1:2::",
    "fe80::1%eth0": "fe80::",
    "": "",
}


@pytest.mark.fault("SE52")
@pytest.mark.parametrize("peer", ADDRESSES)
def test_a_client_is_counted_by_its_ipv4_address_or_its_ipv6_network(peer):
    assert client_address(Transport(peer)) == ADDRESSES[peer]


@pytest.mark.fault("SE52")
@pytest.mark.parametrize(
    ("peer", "host", "tls", "local"),
    [
        ("127.0.0.1", "127.0.0.1:22824", False, True),
        ("::1", "[::1]:22824", False, True),
        ("127.0.0.9", "LocalHost:22824", False, True),
        ("127.0.0.1", "127.0.0.1", True, False),
        ("127.0.0.1", "batch.lab", False, False),
        ("10.0.0.1", "127.0.0.1:22824", False, False),
        ("172.17.0.1", "localhost:22824", False, False),
        ("", "localhost", False, False),
    ],
)
def test_only_loopback_at_both_ends_without_tls_is_local(peer, host, tls, local):
    request = make_mocked_request("GET", "/ui/", headers={"Host": host}, transport=Transport(peer, tls=tls))

    assert is_local_request(request) == local


@pytest.mark.fault("SE49")
@pytest.mark.parametrize(
    ("peer", "tls", "confidential"),
    [
        *((text, False, True) for text in ("127.0.0.1", "::1", "::ffff:127.0.0.1")),
        *((address, False, False) for address in ("172.17.0.2", "fe80::1%eth0", "::ffff:10.0.0.1", None)),
        ("10.0.0.1", True, True),
    ],
)
def test_tls_or_loopback_make_a_connection_confidential(peer, tls, confidential):
    assert is_confidential(Transport(peer, tls=tls)) == confidential


HOSTS = {
    "localhost": "localhost",
    "LOCALHOST:1": "localhost",
    "[::1]:80": "[::1]",
    **dict.fromkeys(["a:b", "", "a@b:1:2", "::1", "a:123456", "[::1"]),
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_name_of_a_host_header(host):
    assert host_name(host) == HOSTS[host]
