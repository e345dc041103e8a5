"""The networks that jobs share: a bridge and a pause container for each environment and account (docs/decisions/0022).

Both are found by their labels, the pause container also by its name, because an image cannot set a name. They are
created for the first job and remain for later ones, also after a restart of batchq. A dead pause container is replaced,
never restarted, so a container that was to join it and has not started can never start. Networks without a job are
removed after an hour, when batchq ends, and when the engine has no subnet for another network.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from threading import Lock

from docker.errors import APIError, NotFound
from msgspec import Struct

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import (
    BESIDE,
    INSTANCE,
    JOB,
    SharedNetwork,
    commons_labels,
    commons_name,
    commons_of,
)
from batchq.compute.docker.inspection import labels_of, member, state_in, state_of
from batchq.compute.docker.network import pause_container
from batchq.compute.docker.network.bridges import ensure, listed
from batchq.compute.docker.network.per_attempt import gone_is_well, refused
from batchq.errors import EngineUnknown, NameTaken
from batchq.ports.runtime import ContainerState

LONG = 360  # surveys without a job until a network is removed: an hour

log = logging.getLogger(__name__)


class _Place(Struct, frozen=True, kw_only=True):
    """A shared network that exists in the engine."""

    shared: SharedNetwork
    #: The id of its pause container; None: only the bridge exists.
    keeper: str | None
    #: Whether the pause container runs.
    runs: bool
    #: Whether a job's container is, or may be, on the network.
    used: bool


class SharedNetworks:
    """Creates and removes the shared networks of one instance. Thread-safe."""

    def __init__(self, instance: str, *, long: int = LONG) -> None:
        """A network is removed after it had no job in more than `long` calls of `look`."""
        self._instance = instance
        self._long = long
        #: Whether there may be networks to remove.
        self.seen = False
        #: The ids of the pause containers that ran when last inspected.
        self._keepers: dict[SharedNetwork, str] = {}
        #: The number of successive calls of `look` in which the network had no job.
        self._idle: dict[SharedNetwork, int] = {}
        self._entering = Lock()
        #: Held while a network is created or removed.
        self._turns: defaultdict[SharedNetwork, Lock] = defaultdict(Lock)

    def join(self, client: Client, shared: SharedNetwork) -> str:
        """Return the network mode for a container; the network is created if it does not exist.

        Raises StartRefused, NameTaken and NoSubnet. A known pause container is not inspected again: if it has died,
        the start of the container fails.
        """
        self._idle.pop(shared, None)
        known = self._keepers.get(shared)
        if known is not None:
            return BESIDE + known
        with self._turn(shared):
            known = self._keepers.get(shared)
            if known is None:
                try:
                    known = self._keepers[shared] = self._ensure(client, shared)
                except APIError as error:
                    raise refused(error) from error
        return BESIDE + known

    def runs(self, client: Client, keeper_id: str) -> bool:
        """Whether a pause container runs, of a shared network or of an attempt; a dead one is not joined any more."""
        try:
            inspected: object = client.inspect_container(keeper_id)
        except NotFound:
            self._forget([keeper_id])
            return False
        if state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING:
            return True
        self._forget([keeper_id])
        return False

    def look(self, client: Client) -> None:
        """Forget dead pause containers, and remove networks without a job in more than `long` calls."""
        known = set(self._keepers.values())
        there = self._there(client)
        self.seen = bool(there)
        self._forget(known - {it.keeper for it in there if it.runs})
        self._idle = {it.shared: self._idle.get(it.shared, 0) + 1 for it in there if not it.used}
        for shared in [it for it, looks in self._idle.items() if looks > self._long]:
            log.info("network of %s: removed, no job has used it for long", shared)
            self._take_away(client, shared)

    def leave(self, client: Client) -> None:
        """Remove all networks without a job."""
        for it in self._there(client):
            if not it.used:
                self._take_away(client, it.shared)

    def release(self, client: Client) -> bool:
        """Remove networks without a job now and in the last `look`. Return whether any subnet was freed.

        A network that was joined since then remains, as its first container may not exist yet.
        """
        idle = [it.shared for it in self._there(client) if not it.used and it.shared in self._idle]
        for shared in idle:
            log.info("network of %s: removed, for the engine has no subnet for another network", shared)
            self._take_away(client, shared)
        return bool(idle)

    def _turn(self, shared: SharedNetwork) -> Lock:
        with self._entering:
            return self._turns[shared]

    def _forget(self, gone: Iterable[str]) -> None:
        for keeper_id in gone:
            for shared, known in tuple(self._keepers.items()):
                if known == keeper_id:
                    self._keepers.pop(shared, None)

    def _ensure(self, client: Client, shared: SharedNetwork) -> str:
        """The id of the network's running pause container, created with the bridge if necessary."""
        name, labels = commons_name(self._instance, shared), commons_labels(self._instance, shared)
        inspected = self._inspect(client, name, shared)
        if inspected is not None:
            keeper_id = member(inspected, "Id", of=str)
            if state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING:
                return keeper_id
            client.remove_container(keeper_id, v=True, force=True)
        self.seen = True
        network = ensure(client, name, labels)
        made = pause_container.make(client, pause_container.creation(network=network, labels=labels), name)
        client.start(made)
        log.info("network of %s: made, container %s holds it", shared, name)
        return made

    def _inspect(self, client: Client, name: str, shared: SharedNetwork) -> object | None:
        try:
            inspected: object = client.inspect_container(name)
        except NotFound:
            return None
        if commons_of(labels_of(inspected, "Config", "Labels"), self._instance) != shared:
            raise NameTaken(f"The name {name} is in use, and not by one of ours.")
        return inspected

    def _take_away(self, client: Client, shared: SharedNetwork) -> None:
        with self._turn(shared):
            self._keepers.pop(shared, None)
            self._idle.pop(shared, None)
            labels = commons_labels(self._instance, shared)
            for row in _listed(client, labels):
                if self._held_by(row) == shared:
                    with gone_is_well():
                        client.remove_container(member(row, "Id", of=str), v=True, force=True)
            for network in listed(client, labels):
                with gone_is_well():
                    client.remove_network(member(network, "Id", of=str))

    def _there(self, client: Client) -> list[_Place]:
        ours = {INSTANCE: self._instance}
        rows = _listed(client, ours)
        modes = {_mode(row) for row in rows if labels_of(row, "Labels").get(JOB)}
        keepers = {shared: row for row in rows if (shared := self._held_by(row)) is not None}
        bridges = {shared for it in listed(client, ours) if (shared := self._of(it)) is not None}
        return [_place(it, keepers.get(it), modes) for it in {*keepers, *bridges}]

    def _of(self, row: object) -> SharedNetwork | None:
        return commons_of(labels_of(row, "Labels"), self._instance)

    def _held_by(self, row: object) -> SharedNetwork | None:
        """The shared network of a pause container; None: not a pause container. The name must match the labels."""
        shared = self._of(row)
        if shared is None or f"/{commons_name(self._instance, shared)}" not in member(row, "Names", of=list):
            return None
        return shared


def _place(shared: SharedNetwork, keeper: object | None, modes: Collection[str | None]) -> _Place:
    """`modes` are the network modes of the jobs' containers; None: unknown, so that every network may be in use."""
    if keeper is None:
        return _Place(shared=shared, keeper=None, runs=False, used=False)
    keeper_id = member(keeper, "Id", of=str)
    return _Place(
        shared=shared,
        keeper=keeper_id,
        runs=state_of(member(keeper, "State", of=object)) is ContainerState.RUNNING,
        used=None in modes or BESIDE + keeper_id in modes,
    )


def _mode(row: object) -> str | None:
    """The network mode in a list of containers; None: the engine does not report it there."""
    host = member(row, "HostConfig", of=object)
    return host.get("NetworkMode") if isinstance(host, dict) else None


def _listed(client: Client, labels: Mapping[str, str]) -> list[object]:
    rows: object = client.containers(all=True, filters={"label": [f"{name}={value}" for name, value in labels.items()]})
    if not isinstance(rows, list):
        raise EngineUnknown("the engine's list of containers is none")
    return rows
