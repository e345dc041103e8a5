"""The identity of the container engine: only the engine on which the unfinished attempts were placed is called.

Decision 0037.
"""

from collections.abc import Collection

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import tags_under_way
from batchq.engine.unit_of_work import Committed
from batchq.errors import EngineUnknown
from batchq.ports.runtime import ContainerRuntime, Created, Inspection, LaunchSpec


class EngineCheck:
    """Compares engine ids. An absent container is lost only if it is absent from the engine on which it was placed."""

    def __init__(self) -> None:
        #: The engine's id as last saved; None before the first survey.
        self.known_id: str | None = None
        #: Whether the engine that answers may be asked about attempts.
        self.accepted = False
        #: The id of an engine that answers but is not the known one; None: no such engine answers.
        self.foreign_id: str | None = None
        #: The id of the engine that the last survey accepted; None: no survey was accepted, or the engine has no id.
        self._accepted_id: str | None = None
        #: The active jobs at the last survey.
        self._active_jobs = 0

    @property
    def error(self) -> str | None:
        """The error to report while a foreign engine answers, else None."""
        if self.foreign_id is None:
            return None
        return (
            f"this is not the container engine that {self._active_jobs} jobs run on (this id {self.foreign_id}, known "
            f"id {self.known_id}): no container is started and no job counts as lost until the known engine answers "
            "or `batchq leave-safe-mode --new-engine` accepts this one"
        )

    def matches(self, engine: str | None) -> bool:
        """Whether the id matches the known id. An engine without a permanent id always matches."""
        return engine is None or self.known_id is None or engine == self.known_id

    @property
    def unsaved_id(self) -> str | None:
        """The id of the accepted engine, if it must still be saved; else None.

        Every unit of work saves it, not only that of the survey: that one may fail, and the next may place a job.
        """
        return None if self._accepted_id == self.known_id else self._accepted_id

    def check_survey(self, engine: str | None, *, seen: Collection[Tag], active: Collection[Job]) -> None:
        """Accept the engine of a survey, or not.

        An engine that has a container of an unfinished attempt is accepted: it has changed its id.
        """
        under_way = {tag for job in active for tag in tags_under_way(job)}
        self.accepted = self.matches(engine) or not active or not under_way.isdisjoint(seen)
        self._active_jobs = len(active)
        self.foreign_id = None if self.accepted else engine
        self._accepted_id = engine if self.accepted else None

    def on_committed(self, committed: Committed) -> None:
        engine = committed.unit.engine_id
        if engine is None:
            return
        self.known_id = engine
        if self.foreign_id == engine:
            self.foreign_id = None


class VerifiedRuntime:
    """Raises EngineUnknown from each call while an engine other than the known one answers."""

    def __init__(self, runtime: ContainerRuntime, check: EngineCheck) -> None:
        self._runtime = runtime
        self._check = check

    async def verify(self) -> None:
        """Raise EngineUnknown if another engine answers. Before the first survey this asks the engine for its id."""
        if not self._check.accepted:
            await self._compare_ids()
            self._check.accepted = True

    async def create(self, launch: LaunchSpec) -> Created:
        await self.verify()
        return await self._runtime.create(launch)

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        await self.verify()
        await self._runtime.pull(image, platform, account=account)

    async def start(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.start(tag)

    async def inspect(self, tag: Tag) -> Inspection | None:
        """The state of a container; None if it is absent.

        Absence is reported only after the engine's id was compared again: the engine may have been replaced in between.
        """
        await self.verify()
        found = await self._runtime.inspect(tag)
        if found is None:
            await self._compare_ids()
        return found

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        await self.verify()
        await self._runtime.signal_stop(tag, signal)

    async def kill(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.kill(tag)

    async def remove(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.remove(tag)

    async def _compare_ids(self) -> None:
        """Raise EngineUnknown if the id of the engine differs from the known id."""
        if self._check.foreign_id is None and self._check.matches((await self._runtime.identity()).id):
            return
        self._check.accepted = False
        raise EngineUnknown("a different container engine answers than the one on which jobs run")
