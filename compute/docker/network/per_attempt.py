"""The objects that the containers of an attempt share: its network, pause containers and volumes (docs/decisions/0012).

Each node with several containers has a pause container. All objects are found by their labels, so that a crash loses
nothing. They are created together with a container if they are missing, and removed with the last container of the
attempt; a sweep removes what a crash left behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from weakref import WeakValueDictionary

from docker.errors import APIError, NotFound
from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import (
    BESIDE,
    INSTANCE,
    Place,
    attempt_labels,
    attempt_name,
    keeper_name,
    kept_for,
    shared_labels,
)
from batchq.compute.docker.errors import CONFLICT, message_of, reason, trouble_below
from batchq.compute.docker.inspection import labels_of, member, state_in
from batchq.compute.docker.network import bridges, pause_container
from batchq.compute.docker.start_failures import is_about_host
from batchq.domain.ids import Tag
from batchq.errors import EngineError, EngineUnknown, NameTaken, StartRefused
from batchq.ports.runtime import ContainerState, LaunchSpec


class _Attempt(Struct, weakref=True):
    """The locks of an attempt."""

    #: Held while `makers` changes, and during a removal of the shared objects.
    lock: Lock = field(default_factory=Lock)
    #: The number of threads that create containers of the attempt.
    makers: int = 0
    #: Held during the creation of the network (key "") or of a node's pause container.
    made: dict[str, Lock] = field(default_factory=dict)


class AttemptNetworks:
    """Creates and removes the shared objects of attempts. Thread-safe."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._attempts: WeakValueDictionary[Tag, _Attempt] = WeakValueDictionary()
        self._entering = Lock()
        #: The attempts with shared objects and without a container, as of the last survey.
        self._deserted: frozenset[Tag] = frozenset()

    @contextmanager
    def kept(self, tag: Tag) -> Iterator[None]:
        """A context in which the attempt's shared objects are not removed."""
        attempt = self._attempt(tag)
        with attempt.lock:
            attempt.makers += 1
        try:
            yield
        finally:
            with attempt.lock:
                attempt.makers -= 1

    def place(self, client: Client, launch: LaunchSpec, *, internal: bool) -> Place:
        """Return the namespaces for the container; missing shared objects are created. Raises StartRefused; NameTaken.

        Only in the context of `kept`. An `internal` network has no route to the outside.
        """
        attempt = self._attempt(launch.tag)
        try:
            with attempt.made.setdefault("", Lock()):
                network = self._network(client, launch.tag, internal=internal)
            if not launch.beside:
                return Place(network=network, node=f"node-{launch.tag.node}")
            with attempt.made.setdefault(launch.tag.node, Lock()):
                keeper_id = self._keeper(client, launch, network)
        except APIError as error:
            raise refused(error) from error
        return _beside(keeper_id, launch)

    def clear(self, client: Client, tag: Tag) -> None:
        """Remove the attempt's shared objects, unless a container of the attempt exists or is being created."""
        attempt = self._attempt(tag)
        with attempt.lock:
            if not attempt.makers and not self._has_containers(client, tag):
                self._take_away(client, tag)

    def deserted(self, client: Client, living: Iterable[Tag]) -> tuple[Tag, ...]:
        """The attempts with shared objects that had no container in this survey and in the one before.

        `living` are the tags of this survey.
        """
        peopled = {replace(tag, part="") for tag in living}
        now = frozenset(self._whose(client)) - peopled
        twice = self._deserted & now
        self._deserted = now
        return tuple(twice)

    def _attempt(self, tag: Tag) -> _Attempt:
        with self._entering:
            return self._attempts.setdefault(replace(tag, part=""), _Attempt())

    def _network(self, client: Client, tag: Tag, *, internal: bool) -> str:
        name, labels = attempt_name(self._instance, tag), shared_labels(self._instance, tag)
        return bridges.ensure(client, name, labels, internal=internal)

    def _keeper(self, client: Client, launch: LaunchSpec, network: str) -> str:
        """The id of the node's pause container, which is created and started if necessary."""
        name = keeper_name(self._instance, launch.tag)
        inspected = self._inspect_keeper(client, name, launch.tag)
        if inspected is not None and member(inspected, "HostConfig", "NetworkMode", of=str) != network:
            # Its network does not exist any more, so no container of the node can run.
            client.remove_container(member(inspected, "Id", of=str), v=True, force=True)
            inspected = None
        if inspected is None:
            keeper_id = self._make_keeper(client, launch, network)
        else:
            keeper_id = member(inspected, "Id", of=str)
            if state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING:
                return keeper_id
        client.start(keeper_id)
        return keeper_id

    def _inspect_keeper(self, client: Client, name: str, tag: Tag) -> object | None:
        try:
            inspected: object = client.inspect_container(name)
        except NotFound:
            return None
        if kept_for(labels_of(inspected, "Config", "Labels"), self._instance) != replace(tag, part=""):
            raise NameTaken(f"The name {name} is in use, and not by one of ours.")
        return inspected

    def _make_keeper(self, client: Client, launch: LaunchSpec, network: str) -> str:
        tag = launch.tag
        wanted = pause_container.creation(
            network=network,
            labels=shared_labels(self._instance, tag),
            node=f"node-{tag.node}",
            names=(tag.container, *launch.beside),
        )
        name = keeper_name(self._instance, tag)
        return pause_container.make(client, wanted, name)

    def _has_containers(self, client: Client, tag: Tag) -> bool:
        return bool(_containers(client, attempt_labels(self._instance, tag), most=1))

    def _take_away(self, client: Client, tag: Tag) -> None:
        """Remove the shared objects, the network last: as long as it exists, others may exist too."""
        labels = shared_labels(self._instance, tag)
        for row in _containers(client, labels):
            with gone_is_well():
                client.remove_container(member(row, "Id", of=str), v=True, force=True)
        for volume in _volumes(client, labels):
            with gone_is_well():
                client.remove_volume(member(volume, "Name", of=str))
        for network in bridges.listed(client, labels):
            with gone_is_well():
                client.remove_network(member(network, "Id", of=str))

    def _whose(self, client: Client) -> Iterator[Tag]:
        """The attempt of each shared object of this instance."""
        ours = {INSTANCE: self._instance}
        for row in (*_containers(client, ours), *_volumes(client, ours), *bridges.listed(client, ours)):
            tag = kept_for(labels_of(row, "Labels"), self._instance)
            if tag is not None:
                yield tag


def refused(error: APIError) -> EngineError:
    """The meaning of an error reply to the creation of a shared object; never final, as it may succeed later."""
    if trouble_below(error):
        return EngineUnknown(f"create: {message_of(error)}")
    return StartRefused(
        reason("ResourceInitializationError", error), certain=False, host_failed=is_about_host(message_of(error))
    )


def _beside(keeper_id: str, launch: LaunchSpec) -> Place:
    """The namespaces of a container that joins this pause container."""
    shared = BESIDE + keeper_id
    return Place(network=shared, ipc=shared if launch.share_ipc else None, pid=shared if launch.share_pids else None)


def _containers(client: Client, labels: Mapping[str, str], most: int = -1) -> list[object]:
    rows: object = client.containers(all=True, limit=most, filters={"label": _each(labels)})
    if not isinstance(rows, list):
        raise EngineUnknown("the engine's list of containers is none")
    return rows


def _volumes(client: Client, labels: Mapping[str, str]) -> list[object]:
    answer: object = client.volumes(filters={"label": _each(labels)})
    volumes = member(answer, "Volumes", of=object)
    return volumes if isinstance(volumes, list) else []


def _each(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in labels.items()]


@contextmanager
def gone_is_well() -> Iterator[None]:
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
