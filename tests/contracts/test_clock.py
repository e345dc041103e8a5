"""What the machine's clock must do."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from batchq import clock
from batchq.clock import SystemClock


async def test_it_tells_the_time_of_day_in_utc():
    before, now, after = datetime.now(UTC), SystemClock().now(), datetime.now(UTC)

    assert now.tzinfo is UTC
    assert before <= now <= after + timedelta(milliseconds=1)


async def test_it_never_goes_back():
    system = SystemClock()

    told = [system.now() for _ in range(10_000)]

    assert all(earlier <= later for earlier, later in pairwise(told))


async def test_it_passes_while_somebody_sleeps():
    system = SystemClock()
    before = system.now()

    await system.sleep(0.02)

    assert timedelta(seconds=0.02) <= system.now() - before < timedelta(seconds=5)


async def test_setting_the_machines_clock_does_not_move_it(monkeypatch):
    class NextYear(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=365)

    system = SystemClock()
    before = system.now()

    monkeypatch.setattr(clock, "datetime", NextYear)

    assert system.now() - before < timedelta(seconds=5)
    assert SystemClock().now() - before > timedelta(days=364)
