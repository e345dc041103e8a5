"""The contract of the machine's clock."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from batchq.system import clock
from batchq.system.clock import SystemClock

A_WHILE = timedelta(minutes=30)  # longer than any test takes, and shorter than what clocks are set by


async def test_the_time_is_in_utc():
    before, now, after = datetime.now(UTC), SystemClock().now(), datetime.now(UTC)

    assert now.tzinfo is UTC
    assert before <= now <= after + timedelta(milliseconds=1)


async def test_the_time_never_goes_back():
    system = SystemClock()

    times = [system.now() for _ in range(10_000)]

    assert all(earlier <= later for earlier, later in pairwise(times))


async def test_the_time_passes_during_a_sleep():
    system = SystemClock()
    before = system.now()

    await system.sleep(0.02)

    assert timedelta(seconds=0.02) <= system.now() - before < A_WHILE


@pytest.mark.fault("TM01")
@pytest.mark.parametrize("by", [timedelta(hours=1), -timedelta(hours=1), timedelta(days=365)])
async def test_setting_the_machines_clock_does_not_move_it(monkeypatch, by):
    class Elsewhen(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + by

    system = SystemClock()
    before = system.now()

    monkeypatch.setattr(clock, "datetime", Elsewhen)

    assert timedelta() <= system.now() - before < A_WHILE
    assert abs(SystemClock().now() - before - by) < A_WHILE


@pytest.mark.fault("TM01")
async def test_daylight_saving_does_not_move_it(monkeypatch):
    system = SystemClock()
    before = system.now()

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    summer = system.now()
    monkeypatch.setenv("TZ", "Etc/GMT+12")
    time.tzset()
    far = system.now()
    monkeypatch.undo()
    time.tzset()

    assert before <= summer <= far < before + A_WHILE


@pytest.mark.fault("CO01")
async def test_the_time_for_which_the_machine_is_suspended_counts(monkeypatch):
    system = SystemClock()
    before, elapsed = system.now(), time.clock_gettime

    monkeypatch.setattr(time, "clock_gettime", lambda value: elapsed(value) + 7200 * (value == time.CLOCK_BOOTTIME))

    assert timedelta(hours=2) <= system.now() - before < timedelta(hours=2) + A_WHILE


@pytest.mark.fault("CO01")
async def test_two_clocks_of_one_boot_differ_by_the_change_of_the_machines_clock(monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=2)

    first = SystemClock().boot()
    monkeypatch.setattr(clock, "datetime", Later)
    second = SystemClock().boot()

    assert first.id == second.id
    assert abs(second.at - first.at - timedelta(hours=2)) < timedelta(seconds=1)
