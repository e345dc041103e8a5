"""The state of a simulated engine, and what calls do to it. It waits for nothing."""

from collections.abc import Callable
from datetime import datetime
from ipaddress import IPv4Address
from itertools import count

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.host_loss import went_down
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
    """Of an attempt: each node's address, and the containers that are on it."""

    addresses: dict[str, str] = field(default_factory=dict)
    members: set[Tag] = field(default_factory=set)


class SimulatedEngine:
    """Every image is there but those `lacking`, which a pull gets unless there is a text why not. `now` is the time.

    `network` is what jobs see of it where their compute environment does not say.
    """

    def __init__(self, now: Callable[[], datetime], network: Network) -> None:
        self._now = now
        self._network = network
        self.keepers: dict[tuple[str, str], str] = {}  # by compute environment and account
        self.containers: dict[Tag, SimulatedContainer] = {}
        self.foreign: set[Tag] = set()
        self.lacking: dict[str, str | None] = {}
        self.networks: dict[Tag, AttemptNetwork] = {}
        self.lost_before: datetime | None = None
        #: Counts how often the engine ended.
        self._life = 0
        self._addresses = count(1)
        self._ids = count(1)

    def create(self, launch: LaunchSpec) -> Created:
        if launch.container is not None and self._id(launch.tag) != launch.container:
            raise ContainerGone(f"the container of {launch.tag} is not there any more")
        if launch.tag in self.foreign:
            raise NameTaken(f"the name of {launch.tag} is in use, and not by one of ours")
        known = self.containers.get(launch.tag)
        if known is not None and launch.container == known.id and self._may_have_run(known):
            return replace(self._made(known), host_lost=True)
        if known is not None and not self._is_stranded(known):
            return self._made(known)
        if launch.spec.image in self.lacking:
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
            keeper=self._keeper(launch),
            engine_life=self._life,
        )
        self.containers[launch.tag] = made
        return self._made(made)

    def pull(self, image: str) -> None:
        why_not = self.lacking.get(image)
        if why_not is not None:
            raise ImageUnavailable(f"CannotPullContainerError: {why_not}")
        self.lacking.pop(image, None)

    def start(self, tag: Tag) -> None:
        container = self._there(tag)
        if self._is_stranded(container):
            raise EngineUnknown(f"the network that {tag} was to join is not there any more")
        if container.started_at is None:
            container.start(self._now())

    def inspect(self, tag: Tag) -> Inspection | None:
        if tag not in self.containers:
            return None
        found = self.containers[tag].found(self._now())
        lost = self._may_have_run(self.containers[tag]) or went_down(found, self.lost_before)
        return replace(found, host_lost=True) if lost else found

    def end(self, *, starting: Tag | None = None) -> None:
        """Killed, it comes back with its containers, but for the start that it had not saved."""
        self._life += 1
        container = None if starting is None else self.containers.get(starting)
        if container is not None and container.started_at is None and not self._is_stranded(container):
            container.unsaved_runs += 1

    def go_down(self) -> None:
        """With every container that runs: the engine sees them dead when it is up again, all in one moment."""
        self._life += 1
        self.lost_before = self._now()
        self.keepers.clear()
        for container in self.containers.values():
            if container.started_at is not None:
                container.crashed_at = container.crashed_at or self.lost_before

    def signal_stop(self, tag: Tag) -> None:
        container = self._running(tag)
        container.asked_at = container.asked_at or self._now()

    def kill(self, tag: Tag) -> None:
        container = self._running(tag)
        container.killed_at = container.killed_at or self._now()

    def remove(self, tag: Tag) -> bool:
        """Whether that was the end of a running one."""
        container = self.containers.pop(tag, None)
        self._leave(tag)
        return container is not None and container.found(self._now()).state is ContainerState.RUNNING

    def survey(self) -> tuple[Inspection, ...]:
        now = self._now()
        return tuple(container.found(now) for container in self.containers.values())

    def lines(self, tag: Tag) -> list[LogLine]:
        return self._there(tag).lines()

    def _made(self, container: SimulatedContainer) -> Created:
        return Created(container=container.id, state=container.found(self._now()).state)

    def _may_have_run(self, container: SimulatedContainer) -> bool:
        """Whether the engine ended after it made a container that it says was not started."""
        return container.started_at is None and container.engine_life != self._life

    def _id(self, tag: Tag) -> str | None:
        return self.containers[tag].id if tag in self.containers else None

    def _join(self, tag: Tag) -> str | None:
        """Its node's address on the network of its attempt, which is there from the first container to the last."""
        if not tag.part:
            return None
        network = self.networks.setdefault(replace(tag, part=""), AttemptNetwork())
        network.members.add(tag)
        if tag.node not in network.addresses:
            network.addresses[tag.node] = str(FIRST_ADDRESS + next(self._addresses))
        return network.addresses[tag.node]

    def _keeper(self, launch: LaunchSpec) -> str | None:
        """Of the network that it shares, which is there from the first container on."""
        if launch.tag.part or (launch.network or self._network) is not Network.SHARED:
            return None
        shared = launch.placed_on, launch.account
        if shared not in self.keepers:
            self.keepers[shared] = str(next(self._ids))
        return self.keepers[shared]

    def _is_stranded(self, container: SimulatedContainer) -> bool:
        """Whether it was to join what is gone; one that has begun goes on without."""
        return (
            container.started_at is None
            and container.keeper is not None
            and self.keepers.get((container.launch.placed_on, container.launch.account)) != container.keeper
        )

    def _leave(self, tag: Tag) -> None:
        attempt = replace(tag, part="") if tag.part else tag
        if attempt in self.networks:
            self.networks[attempt].members.discard(tag)
            if not self.networks[attempt].members:
                del self.networks[attempt]

    def _there(self, tag: Tag) -> SimulatedContainer:
        if tag not in self.containers:
            raise ContainerGone(f"there is no container of {tag}")
        return self.containers[tag]

    def _running(self, tag: Tag) -> SimulatedContainer:
        container = self._there(tag)
        if container.found(self._now()).state is not ContainerState.RUNNING:
            raise ContainerGone(f"{tag} does not run")
        return container
