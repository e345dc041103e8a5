"""The state of a simulated engine, and the effect of each call on it. No call waits."""

from collections.abc import Callable
from datetime import datetime
from ipaddress import IPv4Address
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.host_loss import ended_with_host
from batchq.compute.simulated.container import SimulatedContainer, environment_of
from batchq.compute.simulated.script import read
from batchq.domain.catalog import Network
from batchq.domain.ids import Tag
from batchq.errors import (
    ContainerGone,
    EngineUnknown,
    ImageMissing,
    ImageUnavailable,
    NameTaken,
    StartRefused,
)
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Created, Inspection, LaunchSpec

FIRST_ADDRESS = IPv4Address("10.224.0.0")


class AttemptNetwork(Struct, frozen=True, kw_only=True):
    """The network of an attempt with several containers."""

    #: The IP address of each node.
    addresses: dict[str, str] = field(default_factory=dict)
    #: The containers on the network.
    members: set[Tag] = field(default_factory=set)


class SimulatedEngine:
    """A simulated engine. The methods named as those of the runtime port have the same meaning and errors."""

    def __init__(self, now: Callable[[], datetime], network: Network) -> None:
        """`now` returns the current time; `network` is the default of launches."""
        self._now = now
        self._network = network
        #: The ids of the pause containers of shared networks, by compute environment and account.
        self.pause_containers: dict[tuple[str, str], str] = {}
        self.containers: dict[Tag, SimulatedContainer] = {}
        #: Tags whose container names belong to containers that are not batchq's.
        self.foreign_names: set[Tag] = set()
        #: The images that are missing, each with the error of its pull; None: a pull succeeds. All others exist.
        self.missing_images: dict[str, str | None] = {}
        #: By the attempt's tag without a part.
        self.networks: dict[Tag, AttemptNetwork] = {}
        #: When the machine went down last; None: never.
        self.lost_before: datetime | None = None
        #: Counts how often the engine ended.
        self._run = 0
        self._addresses = count(1)
        self._ids = count(1)

    def create(self, launch: LaunchSpec) -> Created:
        if launch.container is not None and self._id_of(launch.tag) != launch.container:
            raise ContainerGone(f"the container of {launch.tag} does not exist any more")
        if launch.tag in self.foreign_names:
            raise NameTaken(f"the name of {launch.tag} is used by a container that does not belong to this server")
        known = self.containers.get(launch.tag)
        if known is not None and launch.container == known.id and self._may_have_run(known):
            return replace(self._created(known), host_lost=True)
        if known is not None and not self._network_is_gone(known):
            return self._created(known)
        if launch.spec.image in self.missing_images:
            raise ImageMissing(f"No such image: {launch.spec.image}")
        try:
            script = read(environment_of(launch), launch.tag.attempt)
        except ValueError as error:
            raise StartRefused(f"CannotCreateContainerError: {error}") from error
        made = SimulatedContainer(
            id=str(next(self._ids)),
            launch=launch,
            script=script,
            address=self._join(launch.tag),
            pause_container=self._pause_container(launch),
            engine_run=self._run,
        )
        self.containers[launch.tag] = made
        return self._created(made)

    def pull(self, image: str) -> None:
        why_not = self.missing_images.get(image)
        if why_not is not None:
            raise ImageUnavailable(f"CannotPullContainerError: {why_not}")
        self.missing_images.pop(image, None)

    def start(self, tag: Tag) -> None:
        container = self._existing(tag)
        if self._network_is_gone(container):
            raise EngineUnknown(f"the network that {tag} was to join does not exist any more")
        if container.started_at is None:
            container.start(self._now())

    def inspect(self, tag: Tag) -> Inspection | None:
        if tag not in self.containers:
            return None
        found = self.containers[tag].inspect(self._now())
        lost = self._may_have_run(self.containers[tag]) or ended_with_host(found, self.lost_before)
        return replace(found, host_lost=True) if lost else found

    def end(self, *, starting: Tag | None = None) -> None:
        """Kill the engine, which restarts with all its containers.

        `starting` is the container whose start was in progress: its program ran, and the engine did not save that.
        """
        self._run += 1
        container = None if starting is None else self.containers.get(starting)
        if container is not None and container.started_at is None and not self._network_is_gone(container):
            container.unsaved_runs += 1

    def restart_machine(self) -> None:
        """Restart the machine, which ends every container that runs. The restart takes no time."""
        self._run += 1
        self.lost_before = self._now()
        self.pause_containers.clear()
        for container in self.containers.values():
            if container.started_at is not None:
                container.crashed_at = container.crashed_at or self.lost_before

    def signal_stop(self, tag: Tag) -> None:
        container = self._running(tag)
        container.stop_requested_at = container.stop_requested_at or self._now()

    def kill(self, tag: Tag) -> None:
        container = self._running(tag)
        container.killed_at = container.killed_at or self._now()

    def remove(self, tag: Tag) -> bool:
        """Remove the container; a missing one is no error. Return whether it was running."""
        container = self.containers.pop(tag, None)
        self._leave(tag)
        return container is not None and container.inspect(self._now()).state is ContainerState.RUNNING

    def survey(self) -> tuple[Inspection, ...]:
        now = self._now()
        return tuple(container.inspect(now) for container in self.containers.values())

    def lines(self, tag: Tag) -> list[LogLine]:
        return self._existing(tag).lines()

    def _created(self, container: SimulatedContainer) -> Created:
        return Created(container=container.id, state=container.inspect(self._now()).state)

    def _may_have_run(self, container: SimulatedContainer) -> bool:
        """Whether a container that the engine reports as never started was created before the engine last ended."""
        return container.started_at is None and container.engine_run != self._run

    def _id_of(self, tag: Tag) -> str | None:
        return self.containers[tag].id if tag in self.containers else None

    def _join(self, tag: Tag) -> str | None:
        """Join the network of the attempt, and return the node's address; None: the attempt has a single container.

        The network exists from the attempt's first container to its last.
        """
        if not tag.part:
            return None
        network = self.networks.setdefault(replace(tag, part=""), AttemptNetwork())
        network.members.add(tag)
        if tag.node not in network.addresses:
            network.addresses[tag.node] = str(FIRST_ADDRESS + next(self._addresses))
        return network.addresses[tag.node]

    def _pause_container(self, launch: LaunchSpec) -> str | None:
        """The pause container of the shared network that the launch joins, created if it does not exist.

        None: the launch is not on a shared network.
        """
        if launch.tag.part or (launch.network or self._network) is not Network.SHARED:
            return None
        shared = launch.placed_on, launch.account
        if shared not in self.pause_containers:
            self.pause_containers[shared] = str(next(self._ids))
        return self.pause_containers[shared]

    def _network_is_gone(self, container: SimulatedContainer) -> bool:
        """Whether a container that is not started was created to join a pause container that does not exist any more.

        A container that has started keeps running without the pause container.
        """
        return (
            container.started_at is None
            and container.pause_container is not None
            and self.pause_containers.get((container.launch.placed_on, container.launch.account))
            != container.pause_container
        )

    def _leave(self, tag: Tag) -> None:
        attempt = replace(tag, part="") if tag.part else tag
        if attempt in self.networks:
            self.networks[attempt].members.discard(tag)
            if not self.networks[attempt].members:
                del self.networks[attempt]

    def _existing(self, tag: Tag) -> SimulatedContainer:
        if tag not in self.containers:
            raise ContainerGone(f"no container of {tag} exists")
        return self.containers[tag]

    def _running(self, tag: Tag) -> SimulatedContainer:
        container = self._existing(tag)
        if container.inspect(self._now()).state is not ContainerState.RUNNING:
            raise ContainerGone(f"the container of {tag} does not run")
        return container
