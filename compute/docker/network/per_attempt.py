"""The objects that the containers of an attempt share: its network, pause containers and volumes (docs/decisions/0012).

Each node with several containers has a pause container. All objects are found by their labels, so that a crash loses
nothing. They are created together with a container if they are missing, and removed with the last container of the
attempt; a sweep removes what a crash left behind.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakValueDictionary

from docker.errors import APIError
from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import (
    CONTAINER_MODE,
    INSTANCE,
    Namespaces,
    attempt_container_labels,
    attempt_in,
    attempt_name,
    attempt_object_labels,
    pause_container_name,
)
from batchq.compute.docker.inspection import labels_of, member
from batchq.compute.docker.network import objects, pause_container
from batchq.domain.ids import Tag
from batchq.ports.runtime import LaunchSpec


class _Attempt(Struct, weakref=True):
    """The locks of an attempt."""

    #: Held while `creators` changes, and during a removal of the shared objects.
    lock: Lock = field(default_factory=Lock)
    #: The number of threads that create containers of the attempt.
    creators: int = 0
    #: Held during the creation of the network (key "") or of a node's pause container.
    creation_locks: dict[str, Lock] = field(default_factory=dict)


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
            with attempt.creation_locks.setdefault("", Lock()):
                network = self._ensure_network(client, launch.tag, internal=internal)
            if not launch.beside:
                return Namespaces(network=network, node=f"node-{launch.tag.node}")
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

    def _ensure_network(self, client: Client, tag: Tag, *, internal: bool) -> str:
        name, labels = attempt_name(self._instance, tag), attempt_object_labels(self._instance, tag)
        return objects.ensure_network(client, name, labels, internal=internal)

    def _ensure_pause_container(self, client: Client, launch: LaunchSpec, network: str) -> str:
        """The id of the node's pause container, which is created and started if necessary."""
        tag, labels = launch.tag, attempt_object_labels(self._instance, launch.tag)
        name = pause_container_name(self._instance, tag)
        inspected = pause_container.find_pause_container(client, name, labels)
        if inspected is not None and member(inspected, "HostConfig", "NetworkMode", of=str) != network:
            # Its network does not exist any more, so no container of the node can run.
            objects.remove_container(client, inspected)
            inspected = None
        if inspected is None:
            names = (tag.container, *launch.beside)
            request = pause_container.create_request(
                network=network, labels=labels, node=f"node-{tag.node}", names=names
            )
            pause_id = pause_container.create_pause_container(client, request, name)
        else:
            pause_id = member(inspected, "Id", of=str)
            if pause_container.runs(inspected):
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
