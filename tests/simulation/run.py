"""One run, from its first server to its end or to the first violated invariant."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from batchq.engine import bulk_stops, propagation
from tests.simulation.choices import Choices
from tests.simulation.invariants import Invariants
from tests.simulation.random_scenario import RandomScenario
from tests.simulation.run_log import InvariantViolated, RunLog, UnexpectedErrors
from tests.simulation.world import World
from tests.support.clock import TimerLoop


class Scenario(Protocol):
    """The events of a run."""

    async def run(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run. `seconds` are virtual."""

    lines: tuple[str, ...]
    digest: str
    #: The violated invariant with its details; None if every invariant held.
    failure: str | None
    counts: Counter[str]
    seconds: float


def run_seed(seed: int) -> RunResult:
    return simulate(Choices(seed), RandomScenario)


def run_checked(seed: int) -> RunResult:
    """Run a seed. Raises InvariantViolated with the end of the log."""
    result = run_seed(seed)
    if result.failure:
        raise InvariantViolated(f"seed {seed}: {excerpt(result)}\nEverything: python -m tests.simulation --seed {seed}")
    return result


def excerpt(result: RunResult) -> str:
    """The violation and the last lines of the log."""
    last = "\n".join(result.lines[-40:])
    return f"{result.failure}\n{last}"


RUNS_OF_A_COLLECTION = 10
_runs = count(1)


def simulate(
    choices: Choices, scenario: Callable[[World], Scenario], invariants: Callable[..., Invariants] = Invariants
) -> RunResult:
    gc.disable()  # the collector's order of destruction would make each run different
    try:
        with asyncio.Runner(loop_factory=TimerLoop) as runner:
            return runner.run(_simulate(choices, scenario, invariants))
    finally:
        gc.enable()
        # The world is a cycle of megabytes. A collection examines the whole process, so that some worlds wait for it.
        if next(_runs) % RUNS_OF_A_COLLECTION == 0:
            gc.collect()


async def _simulate(
    choices: Choices, scenario: Callable[[World], Scenario], invariants: Callable[..., Invariants]
) -> RunResult:
    run_log = RunLog()
    complaints, log = UnexpectedErrors(run_log), logging.getLogger("batchq")
    propagated, batch_sizes = log.propagate, (propagation.MAX_CHILDREN, bulk_stops.MAX_STOPS)
    log.addHandler(complaints)
    log.propagate = False
    asyncio.get_running_loop().set_exception_handler(lambda _, event: complaints.report(event["message"], event))
    try:
        world = World(choices, run_log, invariants)
        await _until_over(world, scenario(world), run_log)
    finally:
        log.removeHandler(complaints)
        log.propagate, (propagation.MAX_CHILDREN, bulk_stops.MAX_STOPS) = propagated, batch_sizes
    return RunResult(
        lines=tuple(run_log.lines),
        digest=run_log.digest,
        failure=run_log.failure,
        counts=run_log.counts,
        seconds=asyncio.get_running_loop().time(),
    )


async def _until_over(world: World, of: Scenario, run_log: RunLog) -> None:
    """Run the scenario to its end or to the first violation."""
    scenario = asyncio.create_task(of.run(), name="the course of the world")
    failed = asyncio.create_task(run_log.ended.wait())
    await asyncio.wait({scenario, failed}, return_when=asyncio.FIRST_COMPLETED)
    failed.cancel()
    if scenario.done():
        scenario.result()
    scenario.cancel()
    await asyncio.gather(scenario, failed, return_exceptions=True)
    await world.end()
