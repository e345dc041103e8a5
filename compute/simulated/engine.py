"""The state of a simulated engine and its containers, and the effect of each call on it. No call waits.

The state of a container at any time is computed from its script and the times of its start and signals. So it continues
without being observed, as a real container does while batchq is not running.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from itertools import count
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.compute.shared import ended_with_host
from batchq.compute.simulated.container import PlannedCheckpoint, SimulatedContainer, environment_of
from batchq.compute.simulated.script import Outcomes, read
from batchq.domain.catalog import Network
from batchq.domain.ids import MachineName, Tag
from batchq.domain.machines import Machine
from batchq.errors import (
    ContainerGone,
    ContainerUnusable,
    ImageMissing,
    ImageUnavailable,
    NameTaken,
    RuntimeUnknown,
    StartInterrupted,
    StartRefused,
    StartUnderWay,
)
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Created, Inspection, LaunchSpec

FIRST_ADDRESS = IPv4Address("10.224.0.0")


class AttemptNetwork(Struct, frozen=True, kw_only=True):
    """The network of an attempt with several containers."""

    #: The IP address of each node.
    addresses: dict[int, str] = field(default_factory=dict)
    #: The containers on the network.
    members: set[Tag] = field(default_factory=set)


class SimulatedEngine:
    """A simulated engine. The methods named as those of the runtime port have the same meaning and errors."""

    def __init__(
        self, now: Callable[[], datetime], network: Network, machines: tuple[Machine, ...], outcomes: Outcomes
    ) -> None:
        """`now` returns the current time; `network` is the default of launches."""
        self._outcomes = outcomes
        #: As the engine reports them.
        self.machines = machines
        self._indexed: tuple[Machine, ...] = ()
        self._away: dict[MachineName, datetime | None] = {}
        self._now = now
        self._network = network
        #: The ids of the pause containers of shared networks, by compute environment and account. Containers that have
        #: started keep running without theirs.
        self.pause_containers: dict[tuple[str, str], str] = {}
        self.containers: dict[Tag, SimulatedContainer] = {}
        #: Whether the script of a container so far chooses what the container uses.
        self.measures_use = False
        #: Tags whose container names belong to containers that are not batchq's.
        self.foreign_names: set[Tag] = set()
        #: The images that are missing, each with the error of its pull; None: a pull succeeds. All others exist.
        self.missing_images: dict[str, str | None] = {}
        #: The checkpoints that containers will write.
        self.planned_checkpoints: list[PlannedCheckpoint] = []
        #: The networks that have containers, by the attempt's tag without a container key.
        self.networks: dict[Tag, AttemptNetwork] = {}
        #: When the machine went down last; None: never.
        self.lost_before: datetime | None = None
        #: Counts how often the engine ended.
        self._run = 0
        self._addresses = count(1)
        self._ids = count(1)

    def create(self, launch: LaunchSpec) -> Created:
        known = self.containers.get(launch.tag)
        if launch.container_id is not None and (known is None or known.id != launch.container_id):
            raise ContainerGone(f"the container of {launch.tag} does not exist any more")
        if launch.tag in self.foreign_names:
            raise NameTaken(f"the name of {launch.tag} is used by a container that does not belong to this server")
        if known is not None and launch.container_id == known.id and self._may_have_run(known):
            return replace(self._created(known), host_lost=True)
        if known is not None and not self._network_is_gone(known):
            return self._created(known)
        if launch.container_id is not None:
            raise ContainerUnusable(f"the network that {launch.tag} was to join does not exist any more")
        if launch.spec.image in self.missing_images:
            raise ImageMissing(f"No such image: {launch.spec.image}")
        if self._has_left(launch):
            raise StartInterrupted(f"machine {launch.machine} has left")
        try:
            script = read(environment_of(launch), launch.tag.attempt, job_name=launch.job_name, outcomes=self._outcomes)
        except ValueError as error:
            raise StartRefused(f"CannotCreateContainerError: {error}") from error
        container = SimulatedContainer(
            id=str(next(self._ids)),
            launch=launch,
            script=script,
            address=self._join(launch.tag),
            pause_container=self._pause_container(launch),
            engine_run=self._run,
        )
        self.containers[launch.tag] = container
        self.measures_use = self.measures_use or script.is_measured
        return self._created(container)

    def pull(self, image: str) -> None:
        why_not = self.missing_images.get(image)
        if why_not is not None:
            raise ImageUnavailable(f"CannotPullContainerError: {why_not}")
        self.missing_images.pop(image, None)

    def start(self, tag: Tag) -> None:
        container = self._existing(tag)
        if self._network_is_gone(container):
            raise RuntimeUnknown(f"the network that {tag} was to join does not exist any more")
        if self.is_unreachable(tag):
            raise StartUnderWay(f"machine {container.launch.machine} does not answer")
        if container.started_at is None:
            if self._has_left(container.launch):
                raise StartInterrupted(f"machine {container.launch.machine} has left")
            container.start(self._now())
            for name in container.script.checkpoints:
                self._plan_checkpoint(container, name, container.script.pull_delay)
        if container.started_at is not None and self._now() < container.started_at:
            raise StartUnderWay(f"the simulated engine pulls image {container.launch.spec.image}")

    def inspect(self, tag: Tag) -> Inspection | None:
        if tag not in self.containers:
            return None
        return self._inspect(self.containers[tag])

    def _inspect(self, container: SimulatedContainer) -> Inspection:
        """What the engine reports of a container: of one on a machine that does not answer, what it knew before."""
        since = self._away_since(container)
        found = container.inspect(self._now() if since is None else since)
        if since is not None and found.stopped_at is not None and found.stopped_at >= since:
            return Inspection(
                tag=found.tag,
                state=ContainerState.RUNNING,
                machine=found.machine,
                started_at=found.started_at,
                address=container.address,
            )
        crashed = container.lost_with_machine and found.stopped_at == container.crashed_at
        lost = crashed or self._may_have_run(container) or ended_with_host(found, self.lost_before)
        return replace(found, host_lost=True) if lost else found

    def disconnect(self, name: MachineName) -> None:
        """Let a machine of several answer no more. Its containers continue."""
        self._change_machine(name, away_since=self._now())

    def power_off(self, name: MachineName) -> None:
        """Let a machine of several lose its power, and with it every container that runs there."""
        for container in self._on(name):
            self._crash(container)
        self._change_machine(name, away_since=self._now())

    def reconnect(self, name: MachineName) -> None:
        """Let a machine answer again. The containers that a `power_off` ended are not started again."""
        self._change_machine(name, away_since=None)

    def remove_machine(self, name: MachineName) -> list[Tag]:
        """Take a machine from the engine, with all its containers. Returns their tags."""
        self.machines = tuple(machine for machine in self.machines if machine.name != name)
        gone = [container.launch.tag for container in self._on(name)]
        for tag in gone:
            self.remove(tag)
        return gone

    def lose_machine(self, name: MachineName) -> None:
        """Take a machine from the engine, as an administrator does who states that the machine is off.

        Its containers have ended without a report, and stay listed until they are removed. Their output is lost.
        """
        for container in self._on(name):
            self._crash(container)
        self.machines = tuple(machine for machine in self.machines if machine.name != name)

    def _crash(self, container: SimulatedContainer) -> None:
        """End a container with its machine, unless it has ended or was not started."""
        if container.started_at is not None and container.crashed_at is None:
            end = container.end()
            container.crashed_at = max(self._now(), container.started_at)
            container.lost_with_machine = end is None or end.at > container.crashed_at

    def _has_left(self, launch: LaunchSpec) -> bool:
        """Whether the machine of the launch is not among those of the engine any more."""
        return launch.machine is not None and all(machine.name != launch.machine for machine in self.machines)

    def _change_machine(self, name: MachineName, *, away_since: datetime | None) -> None:
        self.machines = tuple(
            replace(machine, away_since=away_since) if machine.name == name else machine for machine in self.machines
        )

    def _on(self, name: MachineName) -> list[SimulatedContainer]:
        return [container for container in self.containers.values() if container.launch.machine == name]

    def _away_since(self, container: SimulatedContainer) -> datetime | None:
        """Since when the machine of the container does not answer; None: it answers."""
        if self._indexed is not self.machines:
            self._indexed = self.machines
            self._away = {machine.name: machine.away_since for machine in self.machines}
        return None if container.launch.machine is None else self._away.get(container.launch.machine)

    def is_unreachable(self, tag: Tag) -> bool:
        """Whether the machine of the container does not answer."""
        return tag in self.containers and self._away_since(self.containers[tag]) is not None

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

    def signal_stop(self, tag: Tag, grace: timedelta | None) -> None:
        container = self._running(tag)
        if container.stop_requested_at is None:
            container.stop_requested_at, container.stop_grace = self._now(), grace
            self._plan_checkpoint(container, container.script.term_checkpoint, container.script.term_delay)

    def request_checkpoint(self, tag: Tag) -> None:
        """Send a checkpoint signal. Each one is followed by a checkpoint, if the script writes one."""
        container = self._running(tag)
        container.requested_at = container.requested_at or self._now()
        self._plan_checkpoint(container, container.script.on_request, container.script.request_delay)

    def takes_requests(self, tag: Tag) -> bool:
        """Whether checkpoint signals are requests: the container has a checkpoint directory."""
        return tag in self.containers and self.containers[tag].launch.checkpoint_directory is not None

    def write_checkpoints(self) -> list[PlannedCheckpoint]:
        """Write the checkpoints that are due, with the times at which they were due; return those that were written."""
        if not self.planned_checkpoints:
            return []
        now = self._now()
        due = [checkpoint for checkpoint in self.planned_checkpoints if checkpoint.at <= now]
        self.planned_checkpoints = [checkpoint for checkpoint in self.planned_checkpoints if checkpoint.at > now]
        return [checkpoint for checkpoint in due if checkpoint.write()]

    def kill(self, tag: Tag) -> None:
        container = self._running(tag)
        container.killed_at = container.killed_at or self._now()

    def remove(self, tag: Tag) -> bool:
        """Remove the container; a missing one is no error. Return whether it was running."""
        container, now = self.containers.pop(tag, None), self._now()
        self.planned_checkpoints = [
            checkpoint
            for checkpoint in self.planned_checkpoints
            if checkpoint.container is not container or checkpoint.at <= now
        ]
        self._leave(tag)
        return container is not None and container.inspect(self._now()).state is ContainerState.RUNNING

    def survey(self) -> tuple[Inspection, ...]:
        return tuple(map(self._inspect, self.containers.values()))

    def lines(self, tag: Tag) -> list[LogLine]:
        container = self._existing(tag)
        has_run = container.inspect(self._now()).state is not ContainerState.CREATED
        if self._has_left(container.launch):
            return []
        return container.lines() if has_run else []

    def _plan_checkpoint(self, container: SimulatedContainer, name: str | None, delay: float) -> None:
        directory = container.launch.checkpoint_directory
        if name is not None and directory is not None:
            at = self._now() + timedelta(seconds=delay)
            self.planned_checkpoints.append(PlannedCheckpoint(container, Path(directory, name), at))

    def _created(self, container: SimulatedContainer) -> Created:
        return Created(container_id=container.id, state=container.inspect(self._now()).state)

    def _may_have_run(self, container: SimulatedContainer) -> bool:
        """Whether a container that the engine reports as never started was created before the engine last ended."""
        return container.started_at is None and container.engine_run != self._run

    def _join(self, tag: Tag) -> str | None:
        """Join the network of the attempt, and return the node's address; None: the attempt has a single container.

        The network exists from the attempt's first container to its last.
        """
        if not tag.container_key:
            return None
        network = self.networks.setdefault(replace(tag, container_key=""), AttemptNetwork())
        network.members.add(tag)
        if tag.node not in network.addresses:
            network.addresses[tag.node] = str(FIRST_ADDRESS + next(self._addresses))
        return network.addresses[tag.node]

    def _pause_container(self, launch: LaunchSpec) -> str | None:
        """The pause container of the shared network that the launch joins, created if it does not exist.

        None: the launch is not on a shared network.
        """
        if launch.tag.container_key or (launch.network or self._network) is not Network.SHARED:
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
        attempt = replace(tag, container_key="") if tag.container_key else tag
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
