"""Runs a case once for each point, with one fault at that point."""

from collections.abc import Callable, Coroutine, Hashable, Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from tests.simulation.cases import Case, CaseResult, CaseRun
from tests.simulation.choices import Point, TransactionFault
from tests.simulation.moments import Moment
from tests.simulation.planned_faults import CALL_FAULTS, LATE, NONE, PlannedFault, PlannedFaults
from tests.simulation.run import excerpt, simulate
from tests.simulation.run_log import InvariantViolated

DOWNTIMES = (0.5, 20.0)  # seconds: the containers run on, and all of them have ended
Request = Callable[[CaseRun], Coroutine[Any, Any, None]]


def terminate_a(run_case: CaseRun) -> Coroutine[Any, Any, None]:
    return run_case.terminate("a")


def cancel_c(run_case: CaseRun) -> Coroutine[Any, Any, None]:
    return run_case.cancel("c")


def run_case(case: Case, planned: PlannedFault = NONE, on_point: Moment | None = None) -> CaseResult:
    """Run the case. Raises InvariantViolated if its outcome differs or an invariant was violated."""
    end = run_case_to_any_end(case, planned, on_point)
    if end.ends() != case.ends:
        raise InvariantViolated(f"{case.name}, with {planned}: {end.ends()}")
    return end


def run_case_to_any_end(
    case: Case, planned: PlannedFault = NONE, on_point: Moment | None = None, on_request: Request = terminate_a
) -> CaseResult:
    """Run the case, whatever its outcome. `on_request` is the request of a user at the point `request_at`."""
    fate, runs = PlannedFaults(planned), []

    def start(world) -> CaseRun:
        runs.append(CaseRun(world, case, fate))
        fate.on_request = lambda: world.spawn(on_request(runs[0]), "a user")
        if on_point is not None:
            fate.on_point = lambda point: on_point(runs[0], point)
        return runs[0]

    result = simulate(fate, start)
    if result.failure:
        raise InvariantViolated(f"{case.name}, with {planned}: {excerpt(result)}")
    return runs[0].result()


def points(case: Case, moment: Moment = lambda _run, _point: True, planned: PlannedFault = NONE) -> list[int]:
    """The points of a case at which the moment holds, in order."""
    found: list[bool] = []
    run_case_to_any_end(case, planned, lambda value, point: found.append(moment(value, point)))
    return [number for number, holds in enumerate(found) if holds]


def crashes(case: Case, planned: PlannedFault = NONE) -> Iterator[PlannedFault]:
    """The server dies in each state that outlives it, and after each call that the engine carries out later.

    A call that the engine carries out at once, or not at all, needs no crash of its own: the state is that of the point
    after the call, or before it.
    """
    result, found = crash_points(case, planned)
    for downtime in DOWNTIMES:
        for at in found:
            yield replace(planned, crash_at=at, downtime=downtime)
        for at in range(result.calls + 1):
            yield replace(planned, fault_at=at, fault=LATE, dies=True, downtime=downtime)


def crash_points(
    case: Case, planned: PlannedFault = NONE, on_point: Moment = lambda _run, _point: True
) -> tuple[CaseResult, list[int]]:
    """The run without a crash, and the first point of each state that outlives a server.

    Two points of three have the state of an earlier one: nothing was changed in between.
    """
    found: dict[Hashable, int] = {}
    points = count()

    def note(run: CaseRun, point: Point) -> None:
        found.setdefault(outliving(run), next(points))
        on_point(run, point)

    return run_case_to_any_end(case, planned, note), list(found.values())


def outliving(run: CaseRun) -> Hashable:
    """The state that a server leaves if it dies now: database, answered requests, containers, images and files.

    The virtual time in whole seconds is a part of the state: a container may exit before or after the next start.
    """
    world, now = run.world, run.world.clock.now()
    engine = world.machine.engine
    containers = tuple(container.inspect(now) for container in engine.containers.values())
    folders = (world.archive.directory, world.checkpoints._root)
    files = tuple((path, path.stat().st_size) for folder in folders for path in sorted(folder.rglob("*")))
    logged = len(world.run_log.lines)  # changed jobs, answers to clients, and calls that changed something
    return int(now.timestamp()), world.connection.total_changes, logged, containers, *engine.missing_images, files


def crashes_at(case: Case, moment: Moment, planned: PlannedFault = NONE) -> list[PlannedFault]:
    """The server dies at each point of a moment."""
    found = points(case, moment, planned)
    return [replace(planned, crash_at=at, downtime=downtime) for at in found for downtime in DOWNTIMES]


def faults(case: Case) -> Iterator[PlannedFault]:
    """Each call of the engine is not answered."""
    for at in range(run_case_to_any_end(case).calls + 1):
        for fault in CALL_FAULTS.values():
            yield PlannedFault(fault_at=at, fault=fault)


def transaction_faults(case: Case) -> Iterator[PlannedFault]:
    """Each transaction fails."""
    for at in range(run_case_to_any_end(case).commits + 1):
        for transaction_fault in TransactionFault:
            yield PlannedFault(transaction_fault_at=at, transaction_fault=transaction_fault)


def bugs(case: Case) -> Iterator[PlannedFault]:
    """An unexpected error is raised at each point."""
    return (PlannedFault(bug_at=at) for at in range(run_case_to_any_end(case).points + 1))


def requests_at(
    case: Case,
    moment: Moment,
    planned: PlannedFault = NONE,
    *,
    on_request: Request = terminate_a,
    on_point: Moment | None = None,
) -> list[CaseResult]:
    """A user makes a request at each point of a moment."""
    found = points(case, moment, planned)
    return [run_case_to_any_end(case, replace(planned, request_at=at), on_point, on_request) for at in found]
