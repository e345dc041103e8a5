"""A simulated container: its state follows from its script and from the times of its start and signals. Pure."""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from batchq.compute.simulated.script import Script
from batchq.domain.use import Use
from batchq.errors import StartRefused
from batchq.ports.logs import LogLine
from batchq.ports.runtime import MAX_FAILURE, ContainerState, Inspection, LaunchSpec

MIB = 2**20
KILLED = 137
CRASHED = 255  # Docker's exit code of a container that ended with its machine
NOT_FOUND, FAILED = 127, 128  # Docker's exit codes of a command that does not exist, and of other failed starts


class End(Struct, frozen=True, kw_only=True):
    """The end of a container."""

    at: datetime
    exit_code: int
    out_of_memory: bool = False
    #: The content of its failure file; None: there is none.
    failure: str | None = None


class SimulatedContainer(Struct, kw_only=True):
    """A container and what happened to it."""

    #: The engine's id of the container, which is never used again.
    id: str
    launch: LaunchSpec
    script: Script
    #: The IP address of its node on the network of its attempt; None: the attempt has a single container.
    address: str | None = None
    #: The id of the pause container whose network it is to join; None: it is not on a shared network.
    pause_container: str | None = None
    #: The number of refused starts.
    refused_starts: int = 0
    #: The run of the engine in which the container was created.
    engine_run: int = 0
    #: How often its program ran without a saved start, so that the state is CREATED.
    unsaved_runs: int = 0
    #: When it was started; None: never.
    started_at: datetime | None = None
    #: When the first stop signal was sent; None: never.
    stop_requested_at: datetime | None = None
    #: The time until SIGKILL that came with the first stop signal; None: no time came with it.
    stop_grace: timedelta | None = None
    #: When the first checkpoint signal was sent; None: never.
    requested_at: datetime | None = None
    #: When it was first killed; None: never.
    killed_at: datetime | None = None
    #: When its machine first went down after the start; None: never.
    crashed_at: datetime | None = None
    #: Whether one machine of several went down, and not the engine.
    lost_with_machine: bool = False

    def start(self, now: datetime) -> None:
        """Start the container at `now`. Raises StartRefused if the script refuses this start."""
        script = self.script
        if script.refuse is not None and (script.refusals is None or self.refused_starts < script.refusals):
            self.refused_starts += 1
            raise StartRefused(
                f"CannotStartContainerError: {script.refuse}",
                exit_code=NOT_FOUND if script.refuse_certain else FAILED,
                certain=script.refuse_certain,
            )
        self.started_at = now + timedelta(seconds=script.pull_delay)

    def end(self) -> End | None:
        """The end that the script and the calls so far lead to; None: it runs for ever, or was not started."""
        return min(self._ends(), key=lambda end: end.at, default=None)

    def inspect(self, now: datetime) -> Inspection:
        """The inspection of the container at `now`, without `host_lost`."""
        tag, end = self.launch.tag, self.end()
        if self.started_at is None or now < self.started_at:
            machine = None if self.started_at is None else self.launch.machine
            return Inspection(tag=tag, state=ContainerState.CREATED, machine=machine)
        if end is None or end.at > now:
            running = ContainerState.RUNNING
            return Inspection(
                tag=tag,
                state=running,
                machine=self.launch.machine,
                started_at=self.started_at,
                address=self.address,
            )
        has_failure_file = self.launch.spec.failure_file is not None
        return Inspection(
            tag=tag,
            state=ContainerState.EXITED,
            machine=self.launch.machine,
            started_at=self.started_at,
            stopped_at=end.at,
            exit_code=end.exit_code,
            out_of_memory=end.out_of_memory,
            failure=end.failure.strip()[:MAX_FAILURE] if end.failure and end.exit_code and has_failure_file else None,
        )

    def use(self, at: datetime) -> Use | None:
        """What it has used by `at`; None: its script does not say, or it does not run then."""
        script = self.script
        if not script.is_measured or self.started_at is None or self.inspect(at).state is not ContainerState.RUNNING:
            return None
        ran = (at - self.started_at).total_seconds()
        memory = None if script.memory_mib is None else script.memory_mib * MIB
        cpu_seconds = None if script.cpus is None else script.cpus * ran
        return Use(sampled_at=at, cpu_seconds=cpu_seconds, peak_memory=memory, working_set=memory)

    def lines(self) -> list[LogLine]:
        """Its whole output, written at the start: the stamps of successive lines differ by one nanosecond."""
        script = self.script
        if self.started_at is None or not (script.output or script.prints_environment):
            return []
        environment = environment_of(self.launch)
        printed = (environment.get(name, "") for name in script.prints_environment)
        at = nanoseconds(self.started_at)
        return [LogLine(at=at + after, message=text) for after, text in enumerate([*script.output, *printed])]

    def _ends(self) -> list[End]:
        script, ends = self.script, []
        if self.started_at is not None and script.seconds is not None:
            at = self.started_at + timedelta(seconds=script.seconds)
            ends.append(
                End(at=at, exit_code=script.exit_code, out_of_memory=script.out_of_memory, failure=script.failure)
            )
        if self.stop_requested_at is not None and script.on_term is not None:
            ends.append(End(at=self.stop_requested_at + timedelta(seconds=script.term_delay), exit_code=script.on_term))
        if self.requested_at is not None and script.request_exit is not None:
            at = self.requested_at + timedelta(seconds=script.request_delay)
            ends.append(End(at=at, exit_code=script.request_exit))
        if self.killed_at is not None:
            ends.append(End(at=self.killed_at + timedelta(seconds=script.kill_delay), exit_code=KILLED))
        if self.crashed_at is not None:
            ends.append(End(at=self.crashed_at, exit_code=CRASHED))
        return ends


class PlannedCheckpoint(Struct, frozen=True):
    """A checkpoint that a container writes if it runs until then."""

    container: SimulatedContainer
    path: Path
    at: datetime

    def write(self) -> bool:
        """Write the checkpoint. Returns False if the container ended before, or the directory does not exist."""
        end = self.container.end()
        if end is not None and end.at < self.at:
            return False
        with suppress(FileNotFoundError):
            self.path.write_text(f"{self.at}\n")
            os.utime(self.path, ns=(nanoseconds(self.at),) * 2)
            return True
        return False


def environment_of(launch: LaunchSpec) -> dict[str, str]:
    """The environment of the container: batchq's variables take precedence over the job's."""
    return dict(launch.spec.environment) | dict(launch.environment)


def nanoseconds(at: datetime) -> int:
    """Nanoseconds since the epoch."""
    return (at - datetime.fromtimestamp(0, tz=at.tzinfo)) // timedelta(microseconds=1) * 1000
