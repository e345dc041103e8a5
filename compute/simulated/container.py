"""A simulated container. What it is at a moment follows from its script and from when it was started and signalled.

So it goes on by itself whether or not anybody looks, as a real one does while batchq is away.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from batchq.compute.simulated.script import Script
from batchq.errors import StartRefused
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Inspection, LaunchSpec

KILLED = 137
CRASHED = 255  # what Docker says of one that ended with its machine
NOT_FOUND, FAILED = 127, 128  # what Docker says of a command that is not there, and of any other failure to start


class End(Struct, frozen=True, kw_only=True):
    at: datetime
    exit_code: int
    out_of_memory: bool = False


class SimulatedContainer(Struct, kw_only=True):
    """`refused` counts the starts that were."""

    id: str
    launch: LaunchSpec
    script: Script
    address: str | None = None
    keeper: str | None = None
    refused: int = 0
    #: Which life of the engine it was made in.
    engine_life: int = 0
    #: How often its program ran without the engine saving that: the state is CREATED all the same.
    unsaved_runs: int = 0
    started_at: datetime | None = None
    asked_at: datetime | None = None
    killed_at: datetime | None = None
    crashed_at: datetime | None = None

    def start(self, now: datetime) -> None:
        """Raises StartRefused where the script says so."""
        script = self.script
        if script.refuse is not None and (script.refusals is None or self.refused < script.refusals):
            self.refused += 1
            raise StartRefused(
                f"CannotStartContainerError: {script.refuse}",
                exit_code=NOT_FOUND if script.refuse_certain else FAILED,
                certain=script.refuse_certain,
            )
        self.started_at = now

    def end(self) -> End | None:
        """How it ends if nothing more is done to it, None if it will not."""
        return min(self._ends(), key=lambda it: it.at, default=None)

    def found(self, now: datetime) -> Inspection:
        tag, end = self.launch.tag, self.end()
        if self.started_at is None:
            return Inspection(tag=tag, state=ContainerState.CREATED)
        if end is None or end.at > now:
            running = ContainerState.RUNNING
            return Inspection(tag=tag, state=running, started_at=self.started_at, address=self.address)
        return Inspection(
            tag=tag,
            state=ContainerState.EXITED,
            started_at=self.started_at,
            stopped_at=end.at,
            exit_code=end.exit_code,
            out_of_memory=end.out_of_memory,
        )

    def lines(self) -> list[LogLine]:
        """One a nanosecond."""
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
            ends.append(End(at=at, exit_code=script.exit_code, out_of_memory=script.out_of_memory))
        if self.asked_at is not None and script.on_term is not None:
            ends.append(End(at=self.asked_at + timedelta(seconds=script.term_delay), exit_code=script.on_term))
        if self.killed_at is not None:
            ends.append(End(at=self.killed_at + timedelta(seconds=script.kill_delay), exit_code=KILLED))
        if self.crashed_at is not None:
            ends.append(End(at=self.crashed_at, exit_code=CRASHED))
        return ends


def environment_of(launch: LaunchSpec) -> dict[str, str]:
    return dict(launch.spec.environment) | dict(launch.environment)


def nanoseconds(at: datetime) -> int:
    return (at - datetime.fromtimestamp(0, tz=at.tzinfo)) // timedelta(microseconds=1) * 1000
