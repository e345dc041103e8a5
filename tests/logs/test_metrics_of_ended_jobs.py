"""The search of a log for metrics holds neither the event loop nor the metrics of other users."""

import asyncio
from time import thread_time

import pytest

from batchq.domain.access.accounts import Owner
from batchq.domain.enums import Status
from batchq.domain.training import MetricRule
from batchq.ports.logs import LogPage, StoredLine
from batchq.services import training
from batchq.services.training import MetricsService
from tests.support.builders import attempt, job

#: Each takes about 60 ms for a line of 4,096 characters.
SLOW = tuple(MetricRule(name=f"m{size}", regex=f"((?:.?){{{size}}}c)") for size in range(980, 986))
LINE = StoredLine(position=1, at=0, stamped=0, message="a" * 4096)
ADA, EVE = (Owner(user=name, account=name) for name in ("ada", "eve"))


class Logs:
    """The logs of all jobs: one line each."""

    def __init__(self):
        self.read = []

    async def tail(self, tag, *, limit):
        self.read.append(tag.job_id)
        return LogPage(lines=(LINE,), start=0, end=1)


@pytest.fixture
async def logs():
    asyncio.get_running_loop().live_really()
    return Logs()


def ended(owner, rules):
    return job(status=Status.SUCCEEDED, owner=owner, metric_rules=rules, attempts=(attempt(),))


@pytest.mark.fault("SE93")
async def test_expressions_that_take_long_do_not_hold_the_event_loop(logs):
    service, jobs = MetricsService(logs=logs, checkpoints=None), [ended(EVE, SLOW) for _ in range(2)]
    began = thread_time()

    await asyncio.gather(*(service.of_ended(each, each.attempts[-1]) for each in jobs))

    assert len(logs.read) == len(jobs)
    assert thread_time() - began < 0.2


async def test_metrics_of_one_user_do_not_wait_for_all_those_of_another_one(logs, monkeypatch):
    monkeypatch.setattr(training, "last_values", lambda lines, rules: {})
    service = MetricsService(logs=logs, checkpoints=None)
    many, one = [ended(EVE, SLOW) for _ in range(20)], ended(ADA, SLOW)

    await asyncio.gather(*(service.of_ended(each, each.attempts[-1]) for each in (*many, one)))

    assert logs.read.index(one.id) == 1
