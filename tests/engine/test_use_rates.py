"""What running jobs use between two samples of the activity."""

from datetime import timedelta

from batchq.domain.activity import JobUse
from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from batchq.domain.use import MIB, Use
from batchq.engine.use import UseSamples
from batchq.engine.use_rates import MAX_AGE, UseRates
from batchq.engine.use_series import UseSeries
from tests.support import builders
from tests.support.builders import NOON


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def sampled(samples, job, seconds, cpu_seconds, mib=10):
    (container,) = job.attempt.containers
    tag = Tag(job_id=job.id, attempt=1, container_key=container.key)
    use = Use(sampled_at=at(seconds), cpu_seconds=cpu_seconds, working_set=mib * MIB)
    samples.series.setdefault(tag, UseSeries()).add(use)


def test_a_job_uses_the_cpu_time_since_the_last_sample():
    samples, job = UseSamples(), builders.job(status=Status.RUNNING, started_at=NOON)
    rates = UseRates(samples)

    sampled(samples, job, 10, 5.0)
    first = rates.take([job], at(10))
    sampled(samples, job, 40, 65.0, mib=20)
    second = rates.take([job], at(40))

    assert first == {job.id: JobUse(millicpus=500, memory_mib=10)}  # the mean of its run
    assert second == {job.id: JobUse(millicpus=2000, memory_mib=20)}


def test_a_job_that_was_not_measured_lately_or_not_wholly_is_left_out():
    samples, job = UseSamples(), builders.job(status=Status.RUNNING, started_at=NOON)
    other = builders.job(status=Status.RUNNING, started_at=NOON)
    rates = UseRates(samples)

    sampled(samples, job, 10, 5.0)
    sampled(samples, other, 10, None)

    assert rates.take([job, other], at(10)).keys() == {job.id}
    assert rates.take([job, other], at(10) + MAX_AGE + timedelta(seconds=1)) == {}
