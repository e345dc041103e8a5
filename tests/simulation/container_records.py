"""The true history of the containers, without faults of observation."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from batchq.compute.simulated.container import End, SimulatedContainer
from batchq.domain.ids import JobId, Tag


@dataclass(kw_only=True)
class ContainerRecord:
    """One container from its creation to its removal."""

    container: SimulatedContainer
    removed_at: datetime | None = None
    #: When the last call to remove it was requested, of those that reached the engine.
    removal_requested_at: datetime | None = None

    @property
    def tag(self) -> Tag:
        return self.container.launch.tag

    @property
    def ran(self) -> bool:
        return self.container.started_at is not None

    def lives(self, now: datetime) -> bool:
        ended = self.ended(now)
        return self.ran and not ended

    def ended(self, now: datetime) -> bool:
        end = self.container.end()
        return self.removed_at is not None or (end is not None and end.at <= now)

    @property
    def started_while_removed(self) -> bool:
        """Whether its removal was requested before it was started, and carried out after."""
        requested, started = self.removal_requested_at, self.container.started_at
        return requested is not None and started is not None and requested < started

    @property
    def end(self) -> End | None:
        """The end of its program; None if it has not ended, or was removed before."""
        end = self.container.end()
        return end if end is not None and (self.removed_at is None or end.at <= self.removed_at) else None

    @property
    def died_at(self) -> datetime | None:
        return self.end.at if self.end is not None else self.removed_at


class ContainerRecords:
    """`removed_by_hand` are containers that a person removed. `late` counts calls that are carried out later."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._seen: dict[JobId, list[ContainerRecord]] = defaultdict(list)
        self._removals: dict[Tag, datetime] = {}
        self.removed_by_hand: set[Tag] = set()
        self.late: Counter[tuple[str, Tag]] = Counter()

    def made(self, container: SimulatedContainer) -> None:
        self._seen[container.launch.tag.job_id].append(ContainerRecord(container=container))

    def is_first(self, tag: Tag) -> bool:
        """Whether no other container of the attempt was created."""
        return not any(
            container.tag.attempt == tag.attempt and container.tag != tag for container in self.of_job(tag.job_id)
        )

    def removed(self, tag: Tag) -> None:
        for seen in self.of(tag):
            seen.removed_at = seen.removed_at or self._now()

    def removal_requested(self, tag: Tag) -> None:
        self._removals[tag] = self._now()

    def removal_reached_engine(self, tag: Tag) -> None:
        """The call may have taken a while, in which the container was started."""
        for seen in self.of(tag):
            if seen.removed_at is None:
                seen.removal_requested_at = self._removals[tag]

    def will_be_late(self, call: str, tag: Tag) -> None:
        self.late[call, tag] += 1

    def of(self, tag: Tag) -> list[ContainerRecord]:
        return [container for container in self._seen.get(tag.job_id, ()) if container.tag == tag]

    def of_job(self, job_id: JobId) -> list[ContainerRecord]:
        return self._seen.get(job_id, [])

    def all(self) -> Iterator[ContainerRecord]:
        for each in self._seen.values():
            yield from each

    def live(self, job_id: JobId) -> list[ContainerRecord]:
        now = self._now()
        return [record for record in self._seen.get(job_id, ()) if record.lives(now)]

    def of_node(self, tag: Tag, node: int) -> list[ContainerRecord]:
        """The containers of a node of the same attempt."""
        same = [container for container in self._seen.get(tag.job_id, ()) if container.tag.attempt == tag.attempt]
        return [container for container in same if container.tag.node == node]
