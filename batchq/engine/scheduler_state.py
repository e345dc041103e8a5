"""The state of the engine as explanations and the health report read it: from memory, without a read of the store."""

from collections.abc import Mapping

from msgspec import Struct

from batchq.domain.explanation.facts import Holders, Obstacle, SchedulerState, StartProgress
from batchq.domain.explanation.queued_reasons import (
    EngineChangedReason,
    EngineUnavailableReason,
    SafeModeReason,
    StoreUnavailableReason,
)
from batchq.domain.ids import Tag
from batchq.engine.containers.watcher import Watcher
from batchq.engine.loop import EngineLoop
from batchq.ports.catalog import CatalogView
from batchq.ports.clock import Clock


def scheduler_state(
    *,
    loop: EngineLoop,
    watcher: Watcher,
    catalog: CatalogView,
    starts: Mapping[Tag, StartProgress],
    clock: Clock,
) -> SchedulerState:
    """The present state, as last saved. Its collections are views, valid until the next await."""
    scheduler, machines, now = loop.scheduler, loop.state.machines, clock.now()
    return SchedulerState(
        now=now,
        obstacle=obstacle(loop, watcher),
        cluster=None if machines is None else scheduler.cluster(machines),
        queues=catalog.queues,
        policies=catalog.policies,
        usage=scheduler.usage(),
        holders=Holders(loop.state.active, now),
        heads=scheduler.heads(),
        starts=starts,
        stop_pending=loop.stop_pending(),
        recent_starts=scheduler.recent_starts.counts(now),
        start_period=scheduler.recent_starts.period(now),
        share_millicpus=scheduler.share_millicpus(),
        exhausted=loop.budgets.exhausted(now),
    )


def obstacle(loop: EngineLoop, watcher: Watcher) -> Obstacle | None:
    """What keeps all jobs from starting; None: nothing does."""
    if loop.store_failure is not None:
        return Obstacle(reason=StoreUnavailableReason, detail=loop.store_failure)
    if loop.state.safe_mode.active:
        return Obstacle(reason=SafeModeReason, since=loop.state.safe_mode.restoration.at)
    if loop.state.engine_check.foreign_id is not None:
        return Obstacle(reason=EngineChangedReason)
    if watcher.engine_failure is not None:
        return Obstacle(reason=EngineUnavailableReason, since=watcher.failing_since, detail=watcher.engine_failure)
    return None


class Health(Struct, frozen=True, kw_only=True):
    """The state of the engine's components."""

    #: Why the store fails; None: healthy.
    store: str | None
    #: What is wrong with the container engine; None: healthy.
    engine: str | None
    #: Why safe mode starts no job; None outside safe mode.
    safe_mode: str | None
    #: The state of each background loop by name; `ok`: healthy.
    loops: dict[str, str]
    #: The names of the loops that fail each time they are restarted.
    failing: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        wrong = (self.store, self.engine, self.safe_mode)
        return not any(wrong) and all(loop == "ok" for loop in self.loops.values())
