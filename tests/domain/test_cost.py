"""Costs, prices and budgets as pure functions."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain import budgets
from batchq.domain.activity import environment_loads_of
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.cost import (
    Amounts,
    byte_hours,
    charged_until_seen,
    cost_between,
    cost_by_day,
    cost_of,
    hourly,
    limit_cost,
    rounded,
    run_time,
    spending_of,
)
from batchq.domain.enums import AttemptContainerState, BudgetLimit, BudgetPeriod, Status, StopKind
from batchq.domain.job import AttemptContainer
from batchq.domain.prices import prices_of
from batchq.domain.training import MetricValue, TrainingPlan, check_rules, metric_rules, training_plan
from batchq.errors import Invalid
from tests.support.builders import NOON, attempt, job, resources
from tests.support.examples import examples

PRICES = prices_of({"currency": "EUR", "vcpu_hour": Decimal("0.04"), "gib_hour": Decimal("0.005"), "gpu_hour": 2})
HOUR = timedelta(hours=1)
KEY = BudgetKey(BudgetScope.ACCOUNT, "lab")
BUDGET = Budget(key=KEY, currency="EUR", soft=Decimal(80), hard=Decimal(100))


def ran(start, end, **of):
    """A finished job with prices and one attempt; `of`: members of its specification."""
    done = attempt(exit_code=0, started_at=start, stopped_at=end)
    made = job(status=Status.FAILED, attempts=(done,), stopped_at=end)
    return replace(made, spec=replace(made.spec, prices=PRICES, **of))


def test_an_hour_costs_the_reserved_vcpus_memory_and_gpus():
    amounts = hourly(PRICES, resources(millicpus=2500, memory_mib=2048, gpus=3))

    assert amounts == Amounts(gpu=Decimal(6), compute=Decimal("0.1") + Decimal("0.01"))


def test_running_jobs_with_prices_in_the_currency_of_the_server_have_a_cost_an_hour():
    priced = job(attempt=attempt(environment="local"), millicpus=1000, memory_mib=1024)
    priced = replace(priced, spec=replace(priced.spec, prices=PRICES))
    dollars = replace(priced, spec=replace(priced.spec, prices=replace(PRICES, currency="USD")))

    found = environment_loads_of([priced, dollars, replace(priced, spec=job().spec)], {}, currency="EUR")

    assert (found["local"].running, found["local"].hourly_cost) == (3, 45e6)
    assert environment_loads_of([priced], {}, currency=None)["local"].hourly_cost == 0


def test_a_time_limit_has_the_cost_of_its_whole_time():
    limited = replace(job(timeout=2 * HOUR).spec, prices=PRICES)

    assert limit_cost(limited) == hourly(PRICES, limited.resources).times(Decimal(2))
    assert limit_cost(replace(limited, timeout=None)) is limit_cost(replace(limited, prices=None)) is None


def test_amounts_are_rounded_half_to_even():
    assert [str(rounded(Decimal(text))) for text in ("0.125", "0.135", "0.1250001")] == ["0.12", "0.14", "0.13"]


@settings(max_examples=examples(200))
@given(
    start=st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - naive bounds
    length=st.timedeltas(timedelta(), timedelta(days=600)),
)
def test_the_days_of_an_attempt_add_up_to_its_cost(start, length):
    done = ran(start, start + length)
    days = list(cost_by_day(done, done.attempts[0]))
    whole = cost_of(done, start + length)
    assert whole is not None
    total = sum((day.total for _, day in days), Decimal(0))
    assert abs(total - whole.total) < Decimal("1e-15")
    assert [day for day, _ in days] == sorted({day for day, _ in days})
    assert len(days) <= 401


def test_an_attempt_over_midnight_is_divided():
    start = datetime(2026, 11, 30, 22, tzinfo=UTC)
    done = ran(start, start + 3 * HOUR)

    first, second = cost_by_day(done, done.attempts[0])

    assert (first[0], second[0]) == (date(2026, 11, 30), date(2026, 12, 1))
    assert first[1].total == 2 * second[1].total


def test_an_attempt_that_never_ran_costs_nothing():
    never = job(status=Status.FAILED, attempts=(attempt(started_at=None, stopped_at=NOON),))
    never = replace(never, spec=replace(never.spec, prices=PRICES))

    assert cost_of(never, NOON).total == 0
    assert list(spending_of(never, never.attempts)) == []


SEEN = NOON + 2 * HOUR
END = NOON + 9 * HOUR


def part(key, hours, **of):
    ended = {"state": AttemptContainerState.ENDED, "started_at": NOON, "stopped_at": NOON + hours * HOUR}
    return AttemptContainer(key=key, **ended | of)


@pytest.mark.parametrize(
    ("members", "charged"),
    [
        ({"exit_code": 1}, None),
        ({}, SEEN),
        ({"started_at": None}, None),
        ({"containers": (part("0/a", 9, exit_code=0), part("0/b", 3, exit_code=1))}, None),
        ({"containers": (part("0/a", 9), part("0/b", 1, exit_code=0))}, SEEN),
        ({"containers": (part("0/a", 9), part("0/b", 3, exit_code=0)), "exit_code": 0}, NOON + 3 * HOUR),
        ({"containers": (part("0/a", 9, exit_code=137, host_lost=True),), "exit_code": 137}, SEEN),
        ({"containers": (part("0/a", 9, exit_code=0), part("0/b", 9, started_at=None))}, None),
        ({"containers": (part("0/a", 9, exit_code=0), part("1/a", 9))}, None),
    ],
    ids=[
        "exited",
        "vanished",
        "never ran",
        "all exited",
        "one vanished",
        "one vanished after an exit",
        "one with its host",
        "one never ran",
        "another node vanished",
    ],
)
def test_an_attempt_whose_end_was_not_reported_is_charged_until_it_was_seen(members, charged):
    ended = attempt(**{"started_at": NOON, "stopped_at": END} | members)
    whole = replace(ran(NOON, END), attempts=(ended,))

    found = charged_until_seen(whole, ended, SEEN)

    assert found.charged_until == charged
    end = charged or END
    assert run_time(found, END) == (timedelta() if found.started_at is None else end - NOON)
    whole = replace(whole, attempts=(found,))
    days = sum(cost.total for _, cost in cost_by_day(whole, found))
    assert days == cost_between(whole, found, None, END).total == cost_of(whole, END).total


def test_an_attempt_that_was_never_seen_to_run_costs_nothing_if_its_end_was_not_reported():
    ended = attempt(started_at=NOON, stopped_at=END)

    assert charged_until_seen(ran(NOON, END), ended, None).charged_until == NOON


def test_the_cost_of_a_part_of_an_attempt():
    done = ran(NOON, NOON + 4 * HOUR)
    rate = hourly(PRICES, done.spec.resources).total

    assert cost_between(done, done.attempts[0], NOON + HOUR, NOON + 3 * HOUR).total == 2 * rate
    assert cost_between(done, done.attempts[0], NOON + 9 * HOUR, NOON + 10 * HOUR).total == 0


def test_storage_counts_whole_byte_hours():
    assert byte_hours(1024, NOON, NOON + 2 * HOUR) == 2048
    assert byte_hours(1024, NOON + HOUR, NOON) == 0


@pytest.mark.parametrize(
    ("metrics", "saved"),
    [
        ({"epoch": 2.5}, 3),
        ({"epoch": 10}, 0),
        ({"epoch": 11}, 0),
        ({"epoch": 0}, None),
        ({"epoch": 1e-300}, None),
        ({"loss": 1}, None),
    ],
)
def test_savings_follow_from_the_progress(metrics, saved):
    done = ran(NOON, NOON + HOUR, plan=TrainingPlan(total_epochs=10))
    values = {name: MetricValue(value=value) for name, value in metrics.items()}

    cost = cost_of(done, NOON, metrics=values)

    assert cost.estimated_savings == (None if saved is None else saved * cost.total)


def test_savings_without_progress_follow_from_the_timeout_of_the_last_attempt():
    first = attempt(number=1, exit_code=1, started_at=NOON, stopped_at=NOON + HOUR)
    last = attempt(number=2, exit_code=1, started_at=NOON + 2 * HOUR, stopped_at=NOON + 5 * HOUR)
    done = ran(NOON, NOON + HOUR, timeout=10 * HOUR)
    done = replace(done, attempts=(first, last), stopped_at=last.stopped_at)

    cost = cost_of(done, NOON + 9 * HOUR)

    assert cost.estimated_savings == 7 * hourly(PRICES, done.spec.resources).total


def test_steps_come_before_epochs():
    plan = TrainingPlan(total_epochs=10, total_steps=100)

    assert plan.fraction({"epoch": MetricValue(value=9), "step": MetricValue(value=50)}) == Decimal("0.5")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "currency"),
        ({"currency": "Euro"}, "currency"),
        ({"currency": "EUR", "vcpu": 1}, "'vcpu' is not a price"),
        ({"currency": "EUR", "vcpu_hour": "1"}, "vcpu_hour must be a number"),
        ({"currency": "EUR", "vcpu_hour": True}, "vcpu_hour must be a number"),
        ({"currency": "EUR", "gpu_hour": Decimal("NaN")}, "gpu_hour"),
        ({"currency": "EUR", "gpu_hour": -1}, "gpu_hour"),
        ({"currency": "EUR", "gpu_hour": Decimal("1e9")}, "gpu_hour"),
    ],
)
def test_invalid_prices_are_refused(table, why):
    with pytest.raises(Invalid, match=why):
        prices_of(table)


def checked_rules(tags):
    check_rules(metric_rules(tags))


@pytest.mark.parametrize(
    ("parse", "tags", "why"),
    [
        *(
            (training_plan, [("batchq:total-epochs", text)], "total-epochs")
            for text in ("0", "-1", "1.5", "x", "", "9" * 30, f"{1:020}9")
        ),
        (checked_rules, [("batchq:metric:", "(x)")], "name of a metric"),
        (checked_rules, [(f"batchq:metric:m{index}", "(x)") for index in range(41)], "at most 40"),
    ],
)
def test_invalid_tags_of_training_jobs_are_refused(parse, tags, why):
    with pytest.raises(Invalid, match=why):
        parse(tuple(tags))


@pytest.mark.parametrize(
    ("spent", "limits", "order"),
    [("79.99", (), None), ("80", ("SOFT",), StopKind.CANCEL), ("100", ("SOFT", "HARD"), StopKind.TERMINATE)],
)
def test_a_limit_is_reached_by_its_amount(spent, limits, order):
    found = budgets.reached(BUDGET, Decimal(spent), NOON)

    assert found == tuple(map(BudgetLimit, limits))
    assert not found or budgets.stop_kind(found) is order


def test_a_crossing_counts_once_in_its_period_and_not_in_the_next():
    monthly = replace(BUDGET, period=BudgetPeriod.MONTH)
    after = budgets.crossed(monthly, (BudgetLimit.SOFT,), Decimal(85), NOON)

    assert budgets.reached(after, Decimal(90), NOON) == ()
    assert budgets.reached(after, Decimal(110), NOON) == (BudgetLimit.HARD,)
    december = datetime(2026, 12, 1, tzinfo=UTC)
    assert budgets.present_crossings(after, december) == ()
    assert budgets.reached(after, Decimal(85), december) == (BudgetLimit.SOFT,)
    assert budgets.period_end(monthly, december) == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_changed_limit_forgets_its_crossing_and_an_unchanged_one_does_not():
    crossed = budgets.crossed(BUDGET, (BudgetLimit.SOFT, BudgetLimit.HARD), Decimal(110), NOON)

    raised = budgets.changed_budget(crossed, replace(BUDGET, hard=Decimal(200)))

    assert [crossing.limit for crossing in raised.crossings] == [BudgetLimit.SOFT]
    assert budgets.changed_budget(crossed, replace(BUDGET, period=BudgetPeriod.MONTH)).crossings == ()


@pytest.mark.parametrize(
    ("soft", "hard"), [(None, None), (2, 1), (-1, None), (None, "NaN"), (None, "1e10"), ("Infinity", None)]
)
def test_invalid_limits_are_refused(soft, hard):
    with pytest.raises(Invalid):
        budgets.check_limits(*(None if value is None else Decimal(value) for value in (soft, hard)))
