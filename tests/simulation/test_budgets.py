"""A budget is crossed once, and its limits stop the same jobs, whatever fails at the crossing."""

from decimal import Decimal

import pytest

from batchq.compute.simulated.script import Script
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.job import Status
from batchq.ports.jobs import Changes
from tests.simulation.budgets import CURRENCY
from tests.simulation.cases import HANDLES_SIGNAL, SUCCEEDED, Case, CaseRun, End
from tests.simulation.fault_sweep import crashes, crashes_at, run_case, transaction_faults

USUAL = BudgetKey(BudgetScope.QUEUE, "usual")
ORDERED = "The {} limit of the budget of queue usual is reached: 0.00 EUR"


async def _runs_and_waits(play: CaseRun, script: Script, **limits: Decimal) -> None:
    await play.submit("a", script)
    await play.submit("b", script, after="a")
    await play.until(lambda: play.started("a"))
    await play.world.client.set_budget_until_acknowledged(Budget(key=USUAL, currency=CURRENCY, **limits))


SOFT = Case(
    name="a soft limit is crossed",
    steps=lambda it: _runs_and_waits(it, Script(seconds=40), soft=Decimal(0)),
    ends={"a": SUCCEEDED, "b": End(status=Status.FAILED, attempts=0, starts=0, reason=ORDERED.format("soft"))},
)
HARD = Case(
    name="a hard limit is crossed",
    steps=lambda it: _runs_and_waits(it, HANDLES_SIGNAL, hard=Decimal(0)),
    ends={
        "a": End(status=Status.FAILED, attempts=1, starts=1, reason=ORDERED.format("hard")),
        "b": End(status=Status.FAILED, attempts=0, starts=0, reason=ORDERED.format("hard")),
    },
)


def crossing(_play: CaseRun, at) -> bool:
    return isinstance(at.about, Changes) and bool(at.about.bulk_stops)


@pytest.mark.fault("BU01")
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda it: it.name)
def test_a_crash_in_the_commit_of_a_crossing_changes_nothing(case):
    runs = [run_case(case, planned) for planned in crashes_at(case, crossing)]

    assert len(runs) >= 4
    assert {it.world.run_log.counts["crashes"] for it in runs} == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda it: it.name)
def test_a_crash_at_any_point_of_a_crossing_changes_nothing(case):
    assert [run_case(case, planned) for planned in crashes(case)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [SOFT, HARD], ids=lambda it: it.name)
def test_a_failed_commit_of_a_crossing_changes_nothing(case):
    assert [run_case(case, planned) for planned in transaction_faults(case)]
