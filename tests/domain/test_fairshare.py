"""Fair share: usage that decays, weights, reservation, and their effect over days."""

import math
from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as some

from batchq.domain import events as on
from batchq.domain.catalog import SchedulingPolicy, ShareWeight
from batchq.domain.job import ArrayChild
from batchq.domain.scheduling.fairshare import (
    MAX_SHARES,
    MIN_DECAY,
    Change,
    ShareKey,
    SharePicker,
    ShareUse,
    accrued,
    active_shares,
    decay_window,
    max_usable_millicpus,
    share_refusal,
    updated_usage,
)
from tests.domain.lives import after, at, cancel, exited, pending, placed, runnable, running, starting, submitted
from tests.support.builders import NOON
from tests.support.examples import examples

TEN_MINUTES = timedelta(minutes=10)
RED = ShareKey("default", "red")


def policy(decay=timedelta(), reservation=0, **weights):
    shares = tuple(ShareWeight(identifier=name, weight=weight) for name, weight in weights.items())
    return SchedulingPolicy(
        name="fair", shares=shares, decay=decay, reservation=reservation, document="{}", created_at=NOON
    )


def use(**changes):
    return ShareUse(**{"as_of": NOON} | changes)


def picks(picker, count, millicpus=1000):
    taken = []
    for _ in range(count):
        taken.append(picker.next)
        picker.charge(millicpus)
    return taken


def picker(scheme=None, now=NOON, **uses):
    return SharePicker(uses=uses, policy=scheme or policy(), now=now)


# ------------------------------------------------------------------------------------------------------------------ use


def test_held_resources_become_usage_with_time():
    later = accrued(use(millicpus=2000), at(1), TEN_MINUTES)

    assert later.used == pytest.approx(2000, rel=0.001)
    assert later.as_of == at(1)


@pytest.mark.parametrize(
    ("before", "seconds", "used"),
    [(use(used=1000.0), 600, 1000 / math.e), (use(millicpus=2000), 10**6, 2000 * 600)],
    ids=["decays by e in one window", "held for ever is worth one window"],
)
def test_usage_decays_while_held_resources_become_usage(before, seconds, used):
    assert accrued(before, at(seconds), TEN_MINUTES).used == pytest.approx(used)


def test_the_decay_does_not_depend_on_the_number_of_steps():
    steps = use(millicpus=500, used=70.0)
    for second in range(0, 900, 7):
        steps = accrued(steps, at(second), TEN_MINUTES)

    assert accrued(steps, at(900), TEN_MINUTES).used == pytest.approx(
        accrued(use(millicpus=500, used=70.0), at(900), TEN_MINUTES).used
    )


def test_a_clock_set_back_changes_nothing():
    assert accrued(use(used=5.0, millicpus=1), at(-60), TEN_MINUTES) == use(used=5.0, millicpus=1)


@pytest.mark.parametrize(
    ("scheme", "decay"), [(policy(), MIN_DECAY), (policy(decay=TEN_MINUTES * 6), TEN_MINUTES * 6), (None, MIN_DECAY)]
)
def test_the_window_is_that_of_the_policy_or_the_minimum(scheme, decay):
    assert decay_window(scheme) == decay


# --------------------------------------------------------------------------------------------------------------- follow


def followed(*changes, uses=None, now=NOON):
    return updated_usage(uses or {}, [Change(*change) for change in changes], now, {})


def test_a_new_job_is_active_and_holds_nothing():
    new = submitted(share_identifier="red")

    assert followed((None, new)) == {RED: use(active=1, opener=new.spec.owner.user)}


def test_placed_jobs_hold_resources_and_ended_ones_do_not():
    waits = runnable(share_identifier="red", millicpus=3000)
    starts = after(waits, placed())
    ends = after(starts, on.ContainerStarted(attempt=1, started_at=NOON), exited(0))

    held = followed((None, waits), (waits, starts))

    assert held == {RED: use(active=1, millicpus=3000, opener=waits.spec.owner.user)}
    assert followed((starts, ends), uses=held)[RED] == use(opener=waits.spec.owner.user)


def test_a_job_that_is_retried_holds_nothing_and_is_active():
    runs = running(share_identifier="red", millicpus=3000, attempts=2)

    assert followed((runs, after(runs, exited(1))), uses={RED: use(active=1, millicpus=3000)}) == {RED: use(active=1)}


def test_a_job_that_is_cancelled_is_not_active():
    waits = pending(share_identifier="red")

    assert followed((waits, after(waits, cancel())), uses={RED: use(active=2)}) == {RED: use(active=1)}


def test_children_of_an_array_hold_resources_and_count_as_one_job():
    child = starting(share_identifier="red", child=ArrayChild(parent="parent", index=0))

    assert followed((None, child)) == {RED: use(millicpus=1000)}


def test_usage_is_accrued_before_a_change():
    runs = running(share_identifier="red")

    (changed,) = followed(
        (runs, after(runs, exited(0))), uses={RED: use(active=1, millicpus=1000)}, now=at(10)
    ).values()

    assert changed.used == pytest.approx(10_000, rel=0.01)
    assert changed.as_of == at(10)


@pytest.mark.parametrize("fields", [{}, {"share_identifier": "red"}])
def test_a_change_without_an_effect_on_shares_is_not_saved(fields):
    waits = submitted(**fields)

    assert followed((waits, after(waits, on.DependenciesMet()))) == {}


def test_jobs_without_a_share_are_not_counted():
    assert followed((None, submitted())) == {}


# --------------------------------------------------------------------------------------------------------------- shares


def can_open(uses, name, opened=(), queue="default", user=None):
    return share_refusal(uses, ShareKey(queue, name), opened, user=user) is None


def test_the_active_shares_of_a_queue_are_limited():
    uses = {ShareKey("default", str(number)): use(active=1) for number in range(MAX_SHARES)}

    assert not can_open(uses, "one more")
    assert can_open(uses, "7")
    assert can_open(uses, "one more", queue="other")


def test_new_shares_count():
    uses = {ShareKey("default", str(number)): use(active=1) for number in range(MAX_SHARES - 2)}
    opened = [(key, "ann") for key in (ShareKey("default", "7"), ShareKey("default", "new"), ShareKey("other", "new"))]
    another = (ShareKey("default", "another"), "ann")

    assert can_open(uses, "one more", opened)
    assert can_open(uses, "new", [*opened, another])
    assert not can_open(uses, "one more", [*opened, another])


def test_a_share_without_jobs_is_not_counted():
    uses = {ShareKey("default", str(number)): use(active=1) for number in range(MAX_SHARES)}
    uses[ShareKey("default", "7")] = use(used=1000.0)

    assert active_shares(uses, "default") == MAX_SHARES - 1
    assert can_open(uses, "one more")


def test_a_user_opens_no_more_shares_than_are_left_for_others():
    half = MAX_SHARES // 2
    uses = {ShareKey("default", str(number)): use(active=1, opener="ann") for number in range(half - 1)}
    last = [(ShareKey("default", "last"), "ann")]

    assert can_open(uses, "last", user="ann")
    assert not can_open(uses, "one more", last, user="ann")
    assert can_open(uses, "last", last, user="ann")
    assert can_open(uses, "one more", last, user="bob")
    assert can_open(uses, "one more", last)


@pytest.mark.parametrize(("active", "most"), [(0, 0), (1, 50_000), (2, 75_000), (3, 87_500)])
def test_a_reservation_of_half_keeps_powers_of_a_half(active, most):
    assert max_usable_millicpus(policy(reservation=50), active=active, max_millicpus=100_000) == most


# ---------------------------------------------------------------------------------------------------------------- picks


def test_large_jobs_count_for_more():
    line = picker(a=use(), b=use())
    line.charge(4000)

    assert picks(line, 5) == ["b", "b", "b", "b", "a"]


def test_old_usage_does_not_count():
    line = picker(now=at(86_400), a=use(used=10**6), b=use(used=1.0, as_of=at(86_400)))

    assert line.next == "a"


def test_running_jobs_count_without_usage():
    assert picks(picker(a=use(millicpus=1000), b=use()), 2) == ["b", "a"]


# ----------------------------------------------------------------------------------------------------------- long times


class Machine:
    """A machine with so many vCPUs and a virtual clock; every share always has waiting jobs."""

    def __init__(self, weights, sizes, lasts, vcpus):
        self.policy = policy(**weights)
        self.sizes, self.lasts, self.vcpus = sizes, lasts, vcpus
        self.uses = {share: use() for share in weights}
        self.runs, self.second, self.given, self.count = [], 0, Counter(), 0

    def run(self, seconds):
        while self.second < seconds:
            self._fill()
            ends = min(end for end, _ in self.runs)
            for _, share in self.runs:
                self.given[share] += self.sizes[share] * (ends - self.second)
            self.second = ends
            for share in [share for end, share in self.runs if end <= self.second]:
                self._hold(share, -self.sizes[share])
            self.runs = [run for run in self.runs if run[0] > self.second]

    def _fill(self):
        line = SharePicker(uses=self.uses, policy=self.policy, now=at(self.second))
        while self._held() + self.sizes[line.next] <= self.vcpus:
            share = line.next
            line.charge(self.sizes[share])
            self._hold(share, self.sizes[share])
            self.count += 1
            self.runs.append((self.second + self.lasts[share] + 7 * (self.count % 5), share))

    def _held(self):
        return sum(self.sizes[share] for _, share in self.runs)

    def _hold(self, share, millicpus):
        known = accrued(self.uses[share], at(self.second), MIN_DECAY)
        self.uses[share] = ShareUse(millicpus=known.millicpus + millicpus, used=known.used, as_of=at(self.second))


@settings(max_examples=examples(8), deadline=None, phases=[Phase.generate])
@given(weights=some.lists(some.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=2, max_size=4), data=some.data())
def test_over_a_long_time_each_share_gets_its_fraction(weights, data):
    names = "abcd"[: len(weights)]
    sizes = {name: data.draw(some.integers(1, 4)) * 1000 for name in names}
    lasts = {name: data.draw(some.integers(60, 400)) for name in names}
    machine = Machine(dict(zip(names, weights, strict=True)), sizes, lasts, vcpus=32_000)

    machine.run(3 * 3600)

    total, parts = machine.given.total(), sum(1 / weight for weight in weights)
    for name, weight in zip(names, weights, strict=True):
        assert machine.given[name] / total == pytest.approx(1 / weight / parts, abs=0.04)
