"""The networks that jobs share: a bridge and a pause container for each environment and account (docs/decisions/0022).

Both are found by their labels, the pause container also by its name, because an image cannot set a name. They are
created for the first job and remain for later ones, also after a restart of batchq. A dead pause container is replaced,
never restarted, so a container that was to join it and has not started can never start. Networks without a job are
removed after an hour, when batchq ends, and when the engine has no subnet for another network.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from threading import Lock

from docker.errors import APIError, NotFound
from msgspec import Struct

from batchq.compute.docker import network_objects as objects
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import (
    CONTAINER_MODE,
    INSTANCE,
    JOB,
    SharedNetwork,
    node_names,
    shared_network_in,
    shared_network_labels,
    shared_network_name,
)
from batchq.compute.docker.inspection import labels_of, member, state_of
from batchq.ports.runtime import ContainerState

MAX_IDLE_SURVEYS = 360  # surveys without a job until a network is removed: an hour

log = logging.getLogger(__name__)


class _ExistingNetwork(Struct, frozen=True, kw_only=True):
    """A shared network that exists in the engine."""

    shared: SharedNetwork
    #: The id of its pause container; None: only the bridge exists.
    pause_id: str | None
    #: Whether the pause container runs.
    runs: bool
    #: Whether a job's container is, or may be, on the network.
    in_use: bool


class SharedNetworks:
    """Creates and removes the shared networks of one instance. Thread-safe."""

    def __init__(self, instance: str, *, max_idle: int = MAX_IDLE_SURVEYS) -> None:
        """A network is removed after it had no job in more than `max_idle` calls of `update`."""
        self._instance = instance
        self._max_idle = max_idle
        #: Whether there may be networks to remove.
        self.may_exist = False
        #: The ids of the pause containers that ran when last inspected.
        self._pause_ids: dict[SharedNetwork, str] = {}
        #: The number of successive calls of `update` in which the network had no job.
        self._idle: dict[SharedNetwork, int] = {}
        self._lock = Lock()
        #: Held while a network is created or removed.
        self._locks: defaultdict[SharedNetwork, Lock] = defaultdict(Lock)

    def join(self, client: Client, shared: SharedNetwork) -> str:
        """Return the network mode for a container; the network is created if it does not exist.

        Raises StartRefused, NameTaken and NoSubnet. A known pause container is not inspected again: if it has died,
        the start of the container fails.
        """
        self._idle.pop(shared, None)
        known = self._pause_ids.get(shared)
        if known is not None:
            return CONTAINER_MODE + known
        with self._lock_of(shared):
            known = self._pause_ids.get(shared)
            if known is None:
                try:
                    known = self._pause_ids[shared] = self._ensure(client, shared)
                except APIError as error:
                    raise objects.creation_error(error) from error
        return CONTAINER_MODE + known

    def runs(self, client: Client, pause_id: str) -> bool:
        """Whether a pause container runs, of a shared network or of an attempt; a dead one is not joined any more."""
        with suppress(NotFound):
            if objects.is_running(client.inspect_container(pause_id)):
                return True
        self._forget([pause_id])
        return False

    def update(self, client: Client) -> None:
        """Forget dead pause containers, and remove networks without a job in more than `max_idle` calls."""
        known = set(self._pause_ids.values())
        existing = self._existing(client)
        self.may_exist = bool(existing)
        self._forget(known - {network.pause_id for network in existing if network.runs})
        self._idle = {
            network.shared: self._idle.get(network.shared, 0) + 1 for network in existing if not network.in_use
        }
        for shared in [network for network, surveys in self._idle.items() if surveys > self._max_idle]:
            log.info("network of %s: removed, as no job uses it", shared)
            self._remove(client, shared)

    def remove_unused(self, client: Client) -> None:
        """Remove all networks without a job."""
        for network in self._existing(client):
            if not network.in_use:
                self._remove(client, network.shared)

    def free_subnets(self, client: Client) -> bool:
        """Remove networks without a job now and in the last `update`. Return whether any subnet was freed.

        A network that was joined since then remains, as its first container may not exist yet.
        """
        idle = [
            network.shared for network in self._existing(client) if not network.in_use and network.shared in self._idle
        ]
        for shared in idle:
            log.info("network of %s: removed, as the engine has no subnet for another network", shared)
            self._remove(client, shared)
        return bool(idle)

    def _lock_of(self, shared: SharedNetwork) -> Lock:
        with self._lock:
            return self._locks[shared]

    def _forget(self, removed_ids: Iterable[str]) -> None:
        for pause_id in removed_ids:
            for shared, known in tuple(self._pause_ids.items()):
                if known == pause_id:
                    self._pause_ids.pop(shared, None)

    def _ensure(self, client: Client, shared: SharedNetwork) -> str:
        """The id of the network's running pause container, created with the bridge if necessary."""
        name, labels = shared_network_name(self._instance, shared), shared_network_labels(self._instance, shared)
        inspected = objects.find_pause_container(client, name, labels)
        if inspected is not None:
            if objects.is_running(inspected):
                return member(inspected, "Id", of=str)
            try:
                objects.remove_container(client, inspected)
            except objects.ContainerInUse:  # Podman restarts it for the containers that use its namespaces
                pause_id = member(inspected, "Id", of=str)
                client.start(pause_id)
                return pause_id
        self.may_exist = True
        network = objects.ensure_network(client, name, labels)
        request = objects.pause_container_request(network=network, labels=labels, names=node_names(0)[1:])
        pause_id = objects.create_pause_container(client, request, name)
        client.start(pause_id)
        log.info("network of %s: created, with pause container %s", shared, name)
        return pause_id

    def _remove(self, client: Client, shared: SharedNetwork) -> None:
        with self._lock_of(shared):
            self._pause_ids.pop(shared, None)
            self._idle.pop(shared, None)
            labels = shared_network_labels(self._instance, shared)
            for row in objects.list_containers(client, labels):
                if self._served_by(row) == shared:
                    try:
                        objects.remove_container(client, row)
                    except objects.ContainerInUse:  # by a container that was created meanwhile
                        return
            objects.remove_networks(client, labels)

    def _existing(self, client: Client) -> list[_ExistingNetwork]:
        ours = {INSTANCE: self._instance}
        rows = objects.list_containers(client, ours)
        modes = {_mode(row) for row in rows if labels_of(row, "Labels").get(JOB)}
        pause_containers = {shared: row for row in rows if (shared := self._served_by(row)) is not None}
        networks = objects.list_networks(client, ours)
        bridges = {shared for network in networks if (shared := self._shared_network_of(network)) is not None}
        return [
            _existing_network(network, pause_containers.get(network), modes)
            for network in {*pause_containers, *bridges}
        ]

    def _shared_network_of(self, row: object) -> SharedNetwork | None:
        return shared_network_in(labels_of(row, "Labels"), self._instance)

    def _served_by(self, row: object) -> SharedNetwork | None:
        """The shared network of a pause container; None: not a pause container. The name must match the labels."""
        shared = self._shared_network_of(row)
        if shared is None or f"/{shared_network_name(self._instance, shared)}" not in member(row, "Names", of=list):
            return None
        return shared


def _existing_network(shared: SharedNetwork, row: object | None, modes: Collection[str | None]) -> _ExistingNetwork:
    """`row` is that of the pause container in the engine's list; None: only the bridge exists.

    `modes` are the network modes of the jobs' containers; None: unknown, so that every network may be in use.
    """
    if row is None:
        return _ExistingNetwork(shared=shared, pause_id=None, runs=False, in_use=False)
    pause_id = member(row, "Id", of=str)
    return _ExistingNetwork(
        shared=shared,
        pause_id=pause_id,
        runs=state_of(member(row, "State", of=object)) is ContainerState.RUNNING,
        in_use=None in modes or CONTAINER_MODE + pause_id in modes,
    )


def _mode(row: object) -> str | None:
    """The network mode in a list of containers; None: the engine does not report it there."""
    host = member(row, "HostConfig", of=object)
    return host.get("NetworkMode") if isinstance(host, dict) else None
