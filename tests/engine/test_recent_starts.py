"""The placements of each queue within the last hour."""

from datetime import timedelta
from types import SimpleNamespace

from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from batchq.engine.scheduling.counts import RecentStarts
from batchq.ports.jobs import StatusChanged
from tests.support.builders import NOON, job

DEFAULT, NIGHT = QueueName("default"), QueueName("night")


def committed(minute, *queues, status=Status.STARTING):
    changed = [StatusChanged(before=Status.RUNNABLE, job=job(queue=it, status=status)) for it in queues]
    return SimpleNamespace(transitions=changed, unit=SimpleNamespace(now=at(minute)))


def at(minute):
    return NOON + timedelta(minutes=minute)


def test_placements_are_counted_by_queue_for_an_hour():
    starts = RecentStarts(at(0))
    starts.on_committed(committed(1, DEFAULT, NIGHT))
    starts.on_committed(committed(3, DEFAULT))
    starts.on_committed(committed(30, DEFAULT))
    starts.on_committed(committed(31, DEFAULT, status=Status.FAILED))

    assert starts.counts(at(60)) == {DEFAULT: 3, NIGHT: 1}
    assert starts.counts(at(62)) == {DEFAULT: 1}
    assert starts.counts(at(91)) == {}


def test_the_period_is_no_longer_than_the_server_has_run():
    starts = RecentStarts(at(0))

    assert starts.period(at(10)) == timedelta(minutes=10)
    assert starts.period(at(600)) == timedelta(hours=1)


def test_a_clock_that_is_set_back_loses_no_counts():
    starts = RecentStarts(at(0))
    starts.on_committed(committed(30, DEFAULT))
    starts.on_committed(committed(10, DEFAULT))

    assert starts.counts(at(10)) == {DEFAULT: 2}
