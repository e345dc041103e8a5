"""Which container engine the unfinished attempts are on, and whether the one that answers is it. Decision 0037."""

from collections.abc import Collection

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.containers import tags_under_way
from batchq.engine.unit_of_work import Committed


class EngineCheck:
    """Absence proves a loss only on the engine that the attempts were placed on."""

    def __init__(self) -> None:
        #: The engine's id as saved, None before the first survey.
        self.known: str | None = None
        #: Whether the engine that answers may be asked about attempts.
        self.accepted = False
        #: The id of an engine that answers and is not the known one, None when there is no such trouble.
        self.foreign: str | None = None
        self._jobs = 0

    @property
    def trouble(self) -> str | None:
        if self.foreign is None:
            return None
        return (
            f"this is not the container engine that {self._jobs} jobs run on (it is {self.foreign}, theirs {self.known}"
            "): nothing is started or given up until theirs answers, or `batchq resume --new-engine`"
        )

    def is_known(self, engine: str | None) -> bool:
        """An engine without an id that lasts cannot be told from another."""
        return engine is None or self.known is None or engine == self.known

    def inspect(self, engine: str | None, *, seen: Collection[Tag], active: Collection[Job]) -> str | None:
        """Whether a survey is of the attempts' engine; the answer is an id to be saved.

        An engine that has a container of an unfinished attempt is theirs: its id was made anew.
        """
        under_way = {tag for job in active for tag in tags_under_way(job)}
        self.accepted = self.is_known(engine) or not active or not under_way.isdisjoint(seen)
        self._jobs = len(active)
        self.foreign = None if self.accepted else engine
        return engine if self.accepted and engine != self.known else None

    def on_committed(self, committed: Committed) -> None:
        engine = committed.unit.engine_id
        if engine is None:
            return
        self.known = engine
        if self.foreign == engine:
            self.foreign = None
