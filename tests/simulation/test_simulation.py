"""Every invariant holds in random runs with faults. `make simulate` runs thousands more seeds."""

import inspect
from collections import Counter
from decimal import Decimal

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.script import Script
from batchq.domain import events as on
from batchq.domain.access.audit import DONE, record_of
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.bulk_stop import JobOutcome
from batchq.domain.enums import Outcome, Status, StopKind
from batchq.domain.lifecycle.arrays import begin_array, spawn, step_array
from batchq.domain.stop_request import StopRequest
from batchq.engine import loop
from batchq.ports.jobs import Changes
from tests.simulation.budgets import CURRENCY
from tests.simulation.bulk_stops import BulkStopChecks
from tests.simulation.cases import HANDLES_SIGNAL, SUCCEEDED, Case, CaseRun, End
from tests.simulation.choices import Choices
from tests.simulation.fault_sweep import crashes, crashes_at, run_case, transaction_faults
from tests.simulation.history_checks import AuditChecks
from tests.simulation.older_backups import OlderBackupScenario, RestoredInvariants, only_older_restores
from tests.simulation.random_scenario import OperatorScenario, RandomScenario
from tests.simulation.run import run_checked, run_seed, simulate
from tests.simulation.run_log import MESSAGE_REJECTED, RunLog
from tests.support import builders
from tests.support.builders import ADMIN, NOON

SEEDS, ATTENDED, PER_TEST = 2000, 200, 25
QUICK = 5  # seeds of `make check`


def every(number):
    """The seeds of each test; `make check` runs only the first QUICK seeds."""
    exhaustive = [range(first, first + PER_TEST) for first in range(0, number, PER_TEST)]
    return [range(QUICK), *(pytest.param(seeds, marks=pytest.mark.exhaustive) for seeds in exhaustive)]


@pytest.mark.parametrize("seeds", every(SEEDS), ids=str)
def test_every_invariant_holds_with_random_faults(seeds):
    results = [run_checked(seed) for seed in seeds]

    assert sum(result.counts["crashes"] for result in results) > len(seeds)
    assert sum(result.counts["containers started"] for result in results) > len(seeds)


@pytest.mark.parametrize("seeds", every(ATTENDED), ids=str)
def test_every_invariant_holds_with_force_fail_and_deletion(seeds):
    results = [simulate(Choices(seed), OperatorScenario) for seed in seeds]

    assert [result.failure for result in results if result.failure] == []
    assert sum(result.counts["forced"] for result in results) > len(seeds)
    assert sum(result.counts["forgotten"] for result in results) > len(seeds) / 20


@pytest.mark.parametrize("seeds", every(ATTENDED), ids=str)
def test_restores_of_older_backups_stop_no_container_and_start_none_beside_another(seeds):
    results = [simulate(only_older_restores(Choices(seed)), OlderBackupScenario, RestoredInvariants) for seed in seeds]

    assert [result.failure for result in results if result.failure] == []
    assert sum(result.counts["older restores"] for result in results) > len(seeds) / 3


@pytest.mark.exhaustive
def test_every_event_is_delivered_to_a_webhook_in_order():
    results = [simulate(with_webhook(Choices(seed)), RandomScenario) for seed in range(440, 480)]

    assert [result.failure for result in results if result.failure] == []
    assert sum(result.counts["webhook: the receiver is away"] for result in results) > 0
    assert sum(result.counts["webhook: lost answers"] for result in results) > 0


def with_webhook(choices):
    choices.has_webhook = True
    return choices


#: What random runs must contain, by the counts of a run. A change of the choices may remove one of them silently.
DIMENSIONS = (
    "downtimes under a budget",
    "absences under a budget",
    "attempts charged until a survey",
    "clock settings",
    "disk clock settings before a final checkpoint",
    "final checkpoints",
    "restores with paused jobs",
    "drains",
    "fair share: placements beside a paused job",
    "machine restarts in a pause",
    "attempts paused",
    "attempts resumed",
)


@pytest.mark.exhaustive
def test_a_hundred_random_runs_have_every_dimension():
    counts = sum((run_checked(seed).counts for seed in range(340, 440)), Counter())

    assert [dimension for dimension in DIMENSIONS if counts[dimension] < 3] == []


def test_a_seed_repeats_its_run():
    once, again = run_seed(7), run_seed(7)

    assert again.lines == once.lines
    assert again.digest == once.digest


def test_a_run_fails_when_the_engine_logs_a_rejected_message():
    assert f'"{MESSAGE_REJECTED}%s"' in inspect.getsource(loop)


USUAL = BudgetKey(BudgetScope.QUEUE, "usual")
ORDERED = "The {} limit of the budget of queue usual is reached: 0.00 EUR"


async def _runs_and_waits(run: CaseRun, script: Script, **limits: Decimal) -> None:
    await run.submit("a", script)
    await run.submit("b", script, after="a")
    await run.until(lambda: run.started("a"))
    await run.world.client.set_budget_until_acknowledged(Budget(key=USUAL, currency=CURRENCY, **limits))


SOFT = Case(
    name="a soft limit is crossed",
    steps=lambda value: _runs_and_waits(value, Script(seconds=40), soft=Decimal(0)),
    ends={"a": SUCCEEDED, "b": End(status=Status.FAILED, attempts=0, starts=0, reason=ORDERED.format("soft"))},
)
HARD = Case(
    name="a hard limit is crossed",
    steps=lambda value: _runs_and_waits(value, HANDLES_SIGNAL, hard=Decimal(0)),
    ends={
        "a": End(status=Status.FAILED, attempts=1, starts=1, reason=ORDERED.format("hard")),
        "b": End(status=Status.FAILED, attempts=0, starts=0, reason=ORDERED.format("hard")),
    },
)


def crossing(_run: CaseRun, at) -> bool:
    return isinstance(at.about, Changes) and bool(at.about.bulk_stops)


@pytest.mark.fault("BU01")
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda item: item.name)
def test_a_crash_in_the_commit_of_a_crossing_changes_nothing(case):
    runs = [run_case(case, planned) for planned in crashes_at(case, crossing)]

    assert len(runs) >= 4
    assert {run.counts["crashes"] for run in runs} == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda item: item.name)
def test_a_crash_at_any_point_of_a_crossing_changes_nothing(case):
    assert [run_case(case, planned) for planned in crashes(case)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda item: item.name)
def test_a_failed_commit_of_a_crossing_changes_nothing(case):
    assert [run_case(case, planned) for planned in transaction_faults(case)]


@pytest.mark.parametrize("part", ["", "#1", ".side", "#1.side"])
async def test_an_order_to_a_part_of_a_job_is_an_order_to_the_job(part):
    before = builders.job(status=Status.RUNNING)
    order = builders.stop(user="ada")
    run_log = RunLog()
    record = record_of(ADMIN, at=NOON, resource=f"job/{before.id}{part}", outcome=DONE)
    changes = Changes(updated=(replace(before, stop_orders=(order,)),), audit_records=(record,))

    AuditChecks(jobs={before.id: before}, run_log=run_log).written(changes)

    assert run_log.failure is None


CANCEL = StopRequest(kind=StopKind.CANCEL, reason="enough")


def family(*, under_order):
    """An array of two RUNNABLE children whose rows do not contain the order to its array yet."""
    parent, children = spawn(begin_array(builders.job(array_size=2), NOON), 2, NOON)
    if under_order:
        parent, _ = step_array(parent, on.CancelRequested(reason="enough"), NOON)
    return parent, *(replace(child, status=Status.RUNNABLE) for child in children)


@pytest.mark.parametrize("under_order", [True, False])
async def test_a_waiting_child_may_be_reported_as_finished_once_its_array_is_under_order(under_order):
    parent, child, other = family(under_order=under_order)
    run_log = RunLog()
    bulk_stops = BulkStopChecks(jobs={job.id: job for job in (parent, child, other)}, run_log=run_log)

    bulk_stops.reported(CANCEL, (JobOutcome(job_id=child.id, outcome=Outcome.ALREADY_FINISHED),))

    assert (run_log.failure is None) is under_order
    assert bulk_stops.last_allowed(child) == 0
