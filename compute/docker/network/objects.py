"""Lists, creates and removes the networks, containers and volumes that the containers of jobs share.

A bridge network gets a subnet from here if Docker's own address pools, which have only about thirty, are used up.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from itertools import islice
from pathlib import Path

from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from batchq.compute.docker.client import Client
from batchq.compute.docker.errors import CONFLICT, agent_reason, is_about_host, lower_layer_failed, message_of
from batchq.compute.docker.inspection import labels_of, member, reply_rows
from batchq.errors import EngineError, EngineUnknown, StartRefused

SUBNET_RANGE = IPv4Network("10.224.0.0/11")  # 2,048 subnets in a range that is seldom used
SUBNET_PREFIX = 22  # AWS: a job has up to 1,000 nodes
MAX_SUBNET_ATTEMPTS = 16  # subnets that are tried for one network
ROUTES = Path("/proc/net/route")


class NoSubnet(EngineUnknown):
    """All subnets are in use; one becomes free when a network is removed."""


def ensure_network(client: Client, name: str, labels: Mapping[str, str], *, internal: bool = False) -> str:
    """Return the id of the network with these labels, which is created if it does not exist. Raises NoSubnet.

    An `internal` network has no route to the outside.
    """
    existing = list_networks(client, labels)
    if existing:
        return _oldest(existing)
    try:
        return _create_in_free_subnet(client, name, labels, internal=internal)
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        return _oldest(list_networks(client, labels))  # created by an earlier request whose reply was lost


def list_networks(client: Client, labels: Mapping[str, str]) -> list[object]:
    """The networks with all of these labels. Filtered again here: some engines take an empty value for any value."""
    rows = reply_rows(client.networks(filters=_having(labels)), "networks")
    return [row for row in rows if labels.items() <= labels_of(row, "Labels").items()]


def list_containers(client: Client, labels: Mapping[str, str], *, limit: int = -1) -> list[object]:
    """The containers with all of these labels, in any state: at most `limit`, -1: all."""
    return reply_rows(client.containers(all=True, limit=limit, filters=_having(labels)), "containers")


def list_volumes(client: Client, labels: Mapping[str, str]) -> list[object]:
    """The volumes with all of these labels."""
    volumes = member(client.volumes(filters=_having(labels)), "Volumes", of=object)
    return volumes if isinstance(volumes, list) else []


def remove_container(client: Client, row: object) -> None:
    """Remove a container of a list or an inspection, running or not, and its anonymous volumes."""
    with _ignore_missing():
        client.remove_container(member(row, "Id", of=str), v=True, force=True)


def remove_volume(client: Client, row: object) -> None:
    """Remove a volume of a list."""
    with _ignore_missing():
        client.remove_volume(member(row, "Name", of=str))


def remove_networks(client: Client, labels: Mapping[str, str]) -> None:
    """Remove the networks with all of these labels."""
    for network in list_networks(client, labels):
        with _ignore_missing():
            client.remove_network(member(network, "Id", of=str))


def creation_error(error: APIError) -> EngineError:
    """The meaning of an error reply to the creation of a shared object; never final, as it may succeed later."""
    if lower_layer_failed(error):
        return EngineUnknown(f"create: {message_of(error)}")
    return StartRefused(
        agent_reason("ResourceInitializationError", error), certain=False, host_failed=is_about_host(message_of(error))
    )


def free_subnets(used_subnets: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    """The subnets of `SUBNET_RANGE` that do not overlap with any of `used_subnets`."""
    used = list(used_subnets)
    return (
        it for it in SUBNET_RANGE.subnets(new_prefix=SUBNET_PREFIX) if not any(it.overlaps(other) for other in used)
    )


def routed_networks(table: str) -> Iterator[IPv4Network]:
    """The networks of this machine's routes, except the default route. `table` is the text of /proc/net/route."""
    for line in table.splitlines()[1:]:
        _, destination, _, _, _, _, _, mask, *_ = line.split()
        if int(mask, 16):
            parts = (IPv4Address(int(it, 16).to_bytes(4, sys.byteorder)) for it in (destination, mask))
            yield IPv4Network("/".join(map(str, parts)), strict=False)


def _oldest(networks: list[object]) -> str:
    """The id of the oldest network, so that all callers choose the same one if there are several."""
    if not networks:
        raise EngineUnknown("the network of the attempt does not exist")
    return member(min(networks, key=lambda it: member(it, "Created", of=str)), "Id", of=str)


def _create_in_free_subnet(client: Client, name: str, labels: Mapping[str, str], *, internal: bool) -> str:
    """Create a network in the engine's address pools, or else in a free subnet of `SUBNET_RANGE`. Raises NoSubnet."""
    try:
        return _create(client, name, labels, None, internal=internal)
    except APIError as error:
        if "pool" not in message_of(error):
            raise
        pool_error = error
    for subnet in islice(free_subnets(_used_subnets(client)), MAX_SUBNET_ATTEMPTS):
        try:
            return _create(client, name, labels, subnet, internal=internal)
        except APIError as error:
            if "overlap" not in message_of(error):
                raise
    raise NoSubnet(f"no subnet is free for another network: {message_of(pool_error)}") from pool_error


def _create(client: Client, name: str, labels: Mapping[str, str], subnet: IPv4Network | None, *, internal: bool) -> str:
    ipam = None if subnet is None else IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
    response: object = client.create_network(
        name, driver="bridge", labels=dict(labels), ipam=ipam, internal=internal, check_duplicate=True
    )
    return member(response, "Id", of=str)


def _used_subnets(client: Client) -> Iterator[IPv4Network]:
    """The subnets of this machine's routes and of the engine's networks."""
    with suppress(OSError, ValueError):
        yield from routed_networks(ROUTES.read_text())
    for network in list_networks(client, {}):
        pools = member(network, "IPAM", "Config", of=object)
        for pool in pools if isinstance(pools, list) else ():
            with suppress(ValueError):  # an IPv6 subnet
                yield IPv4Network(member(pool, "Subnet", of=str))


def _having(labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The filters of a list request for objects with these labels."""
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Suppress the error of a removal if the object does not exist, or is being removed by another client.

    If the other removal fails, the next sweep finds the object.
    """
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != CONFLICT or "in progress" not in message_of(error):
            raise
