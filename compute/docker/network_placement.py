"""Chooses the network of each container: its attempt's, one shared with other jobs, the host's, none, or Docker's.

The containers of an attempt share a network, pause containers and volumes (docs/decisions/0012). Each node with several
containers has a pause container. All these objects are found by their labels, so that a crash loses nothing. They are
created together with a container if they are missing, and removed with the last container of the attempt; a sweep
removes what a crash left behind.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from weakref import WeakValueDictionary

from docker.errors import APIError, NotFound
from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.docker import network_objects as objects
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import (
    CONTAINER_MODE,
    INSTANCE,
    VOLUME,
    Namespaces,
    SharedNetwork,
    attempt_container_labels,
    attempt_in,
    attempt_name,
    attempt_object_labels,
    node_names,
    pause_container_name,
    shared_volumes,
)
from batchq.compute.docker.inspection import address_of, labels_of, member
from batchq.compute.docker.shared_networks import SharedNetworks
from batchq.domain.catalog import Network
from batchq.domain.ids import Tag
from batchq.ports.runtime import LaunchSpec


class _Attempt(Struct, weakref=True):
    """The locks of an attempt."""

    #: Held while `creators` changes, and during a removal of the shared objects.
    lock: Lock = field(default_factory=Lock)
    #: The number of threads that create containers of the attempt.
    creators: int = 0
    #: Held during the creation of the network (key None) or of a node's pause container.
    creation_locks: dict[int | None, Lock] = field(default_factory=dict)


class AttemptNetworks:
    """Creates and removes the shared objects of attempts. Thread-safe."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._attempts: WeakValueDictionary[Tag, _Attempt] = WeakValueDictionary()
        self._lock = Lock()
        #: The attempts with shared objects and without a container, as of the last survey.
        self._orphaned: frozenset[Tag] = frozenset()

    @contextmanager
    def hold(self, tag: Tag) -> Iterator[None]:
        """A context in which the attempt's shared objects are not removed."""
        attempt = self._attempt(tag)
        with attempt.lock:
            attempt.creators += 1
        try:
            yield
        finally:
            with attempt.lock:
                attempt.creators -= 1

    def join(self, client: Client, launch: LaunchSpec, *, internal: bool) -> Namespaces:
        """Return the namespaces for the container; missing shared objects are created. Raises StartRefused; NameTaken.

        Only in the context of `hold`. An `internal` network has no route to the outside.
        """
        attempt = self._attempt(launch.tag)
        try:
            with attempt.creation_locks.setdefault(None, Lock()):
                name = attempt_name(self._instance, launch.tag)
                labels = attempt_object_labels(self._instance, launch.tag)
                network = objects.ensure_network(client, name, labels, internal=internal)
                for volume, name in shared_volumes(self._instance, launch).items():
                    objects.ensure_volume(client, name, labels | {VOLUME: volume})
            names = node_names(launch.tag.node)
            if not launch.beside:
                return Namespaces(network=network, node=names if launch.spec.named_nodes else names[:1])
            with attempt.creation_locks.setdefault(launch.tag.node, Lock()):
                pause_id = self._ensure_pause_container(client, launch, network)
        except APIError as error:
            raise objects.creation_error(error) from error
        shared = CONTAINER_MODE + pause_id
        return Namespaces(
            network=shared, ipc=shared if launch.share_ipc else None, pid=shared if launch.share_pids else None
        )

    def remove_if_unused(self, client: Client, tag: Tag) -> None:
        """Remove the attempt's shared objects, unless a container of the attempt exists or is being created."""
        attempt = self._attempt(tag)
        with attempt.lock:
            if attempt.creators:
                return
            labels = attempt_container_labels(self._instance, tag)
            if not objects.list_containers(client, labels, limit=1):
                self._remove_objects(client, tag)

    def orphaned(self, client: Client, living: Iterable[Tag]) -> tuple[Tag, ...]:
        """The attempts with shared objects that had no container in this survey and in the one before.

        `living` are the tags of this survey.
        """
        with_containers = {replace(tag, container_key="") for tag in living}
        now = frozenset(self._attempts_with_objects(client)) - with_containers
        twice = self._orphaned & now
        self._orphaned = now
        return tuple(twice)

    def _attempt(self, tag: Tag) -> _Attempt:
        with self._lock:
            return self._attempts.setdefault(replace(tag, container_key=""), _Attempt())

    def _ensure_pause_container(self, client: Client, launch: LaunchSpec, network: str) -> str:
        """The id of the node's pause container, which is created and started if necessary."""
        tag, labels = launch.tag, attempt_object_labels(self._instance, launch.tag)
        name = pause_container_name(self._instance, tag)
        inspected = objects.find_pause_container(client, name, labels)
        if inspected is not None and not _is_on(inspected, network, attempt_name(self._instance, tag)):
            # Its network does not exist any more, so no container of the node can run.
            objects.remove_container(client, inspected)
            inspected = None
        if inspected is None:
            names = (tag.container, *(container.name for container in launch.beside))
            request = objects.pause_container_request(
                network=network, labels=labels, node=node_names(tag.node)[0], names=names
            )
            pause_id = objects.create_pause_container(client, request, name)
        else:
            pause_id = member(inspected, "Id", of=str)
            if objects.is_running(inspected):
                return pause_id
        client.start(pause_id)
        return pause_id

    def _remove_objects(self, client: Client, tag: Tag) -> None:
        """Remove the shared objects, the network last: as long as it exists, others may exist too."""
        labels = attempt_object_labels(self._instance, tag)
        for row in objects.list_containers(client, labels):
            objects.remove_container(client, row)
        for row in objects.list_volumes(client, labels):
            objects.remove_volume(client, row)
        objects.remove_networks(client, labels)

    def _attempts_with_objects(self, client: Client) -> Iterator[Tag]:
        """The attempt of each shared object of this instance."""
        ours = {INSTANCE: self._instance}
        for row in (
            *objects.list_containers(client, ours),
            *objects.list_volumes(client, ours),
            *objects.list_networks(client, ours),
        ):
            tag = attempt_in(labels_of(row, "Labels"), self._instance)
            if tag is not None:
                yield tag


class NetworkPlacement:
    """The networks of one instance."""

    def __init__(self, instance: str, network: Network) -> None:
        """`network` is the default of launches."""
        self._instance = instance
        self._network = network
        self.attempts = AttemptNetworks(instance)
        self.shared = SharedNetworks(instance)

    def hold(self, tag: Tag) -> AbstractContextManager[None]:
        """A context in which the objects that the container shares with its attempt are not removed."""
        return self.attempts.hold(tag) if tag.container_key else nullcontext()

    def namespaces_for(self, client: Client, launch: LaunchSpec) -> Namespaces | None:
        """Return the namespaces for a launch; None: the engine's default network. Missing networks are created.

        Raises StartRefused, NameTaken, and NoSubnet if no subnet is free after shared networks without a job were
        removed. For an attempt with several containers only in the context of `hold`.
        """
        try:
            return self._find(client, launch)
        except objects.NoSubnet:
            if not self.shared.free_subnets(client):
                raise
            return self._find(client, launch)

    def network_of(self, launch: LaunchSpec) -> Network:
        """The network mode of a launch, or else the default."""
        return self._network if launch.network is None else launch.network

    def suits(self, client: Client, launch: LaunchSpec, inspected: object) -> bool:
        """Whether an existing container that has not started is still on the network that it needs."""
        if not launch.tag.container_key:
            return self.pause_container_runs(client, inspected)
        namespaces = self.namespaces_for(client, launch)
        if namespaces is None:
            return False
        return _is_on(inspected, namespaces.network, attempt_name(self._instance, launch.tag))

    def pause_container_runs(self, client: Client, inspected: object) -> bool:
        """Whether the pause container that the container is to join runs; true if it joins no container."""
        return self._joins(client, _mode(inspected))

    def pause_container_is_gone(self, client: Client, namespaces: Namespaces | None) -> bool:
        """Whether the pause container of the namespaces, which `namespaces_for` returned, does not run any more."""
        return namespaces is not None and not self._joins(client, namespaces.network)

    def address(self, client: Client, inspected: object) -> str | None:
        """The IP address of the node, on the container or its pause container; None: it has no address at present."""
        mode = _mode(inspected)
        if not mode.startswith(CONTAINER_MODE):
            return address_of(inspected)
        try:
            return address_of(client.inspect_container(mode.removeprefix(CONTAINER_MODE)))
        except NotFound:
            return None

    def remove_if_unused(self, client: Client, tag: Tag) -> None:
        """Remove the shared objects of the attempt, if the removed container `tag` was its last."""
        if tag.container_key:
            self.attempts.remove_if_unused(client, tag)

    def orphaned(self, client: Client, existing: Iterable[Tag]) -> tuple[Tag, ...]:
        """The attempts with shared objects that had no container in this survey and in the one before.

        `existing` are the tags of this survey. Shared networks without a job for long are removed.
        """
        self.shared.update(client)
        return self.attempts.orphaned(client, existing)

    def _find(self, client: Client, launch: LaunchSpec) -> Namespaces | None:
        network = self.network_of(launch)
        if launch.tag.container_key:
            return self.attempts.join(client, launch, internal=network is Network.NONE)
        match network:
            case Network.SHARED:
                shared = SharedNetwork(environment=launch.placed_on, account=launch.account)
                return Namespaces(network=self.shared.join(client, shared))
            case Network.BRIDGE:
                return None
            case Network.HOST | Network.NONE:
                return Namespaces(network=network.value)

    def _joins(self, client: Client, mode: str) -> bool:
        return not mode.startswith(CONTAINER_MODE) or self.shared.runs(client, mode.removeprefix(CONTAINER_MODE))


def _is_on(inspected: object, network: str, name: str) -> bool:
    """Whether the container is on the network of its attempt, or joins the pause container in `network`.

    `name` is the name of the attempt's network: for every container on a bridge Podman reports the mode `bridge`, and
    lists networks by their names.
    """
    if _mode(inspected) == network:
        return True
    networks = member(inspected, "NetworkSettings", "Networks", of=object)
    is_bridge = _mode(inspected) == "bridge" and not network.startswith(CONTAINER_MODE)
    return is_bridge and isinstance(networks, dict) and name in networks


def _mode(inspected: object) -> str:
    return member(inspected, "HostConfig", "NetworkMode", of=str)
