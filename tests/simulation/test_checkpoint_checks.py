"""The checks of checkpoints and signals accept what the stop orders of a job require, and nothing else."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.container import PlannedCheckpoint, SimulatedContainer
from batchq.compute.simulated.script import Script
from batchq.domain.enums import AttemptContainerState, Status, StopKind
from batchq.domain.ids import Tag
from batchq.domain.job import Attempt, AttemptContainer
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import CheckpointRules
from batchq.ports.runtime import LaunchSpec
from tests.simulation.checkpoints import CheckpointChecks
from tests.simulation.clocks import StoredTimes
from tests.simulation.run_log import RunLog
from tests.simulation.signal_checks import SignalChecks
from tests.support import builders
from tests.support.builders import NOON

PAUSE = StopOrder(
    kind=StopKind.PAUSE,
    reason="later",
    ordered_at=NOON,
    attempt=1,
    final_checkpoint_requested=True,
    final_checkpoint="requested-1",
)
TERMINATE = StopOrder(kind=StopKind.TERMINATE, reason="enough", ordered_at=NOON)
DISCARD = StopOrder(kind=StopKind.TERMINATE, reason="enough", ordered_at=NOON, keep_checkpoints=False)


@pytest.mark.parametrize(("last", "is_kept"), [(TERMINATE, True), (DISCARD, False)], ids=["keep", "discard"])
@pytest.mark.parametrize("names", [(), ("requested-1",)], ids=["deleted", "kept"])
async def test_the_last_order_decides_about_the_final_checkpoint_of_an_earlier_pause(tmp_path, last, is_kept, names):
    job = builders.job(status=Status.FAILED, stop_orders=(PAUSE, last))
    checks = checks_of(job)
    for name in names:
        (tmp_path / name).touch()

    checks.check_end(lambda _: tmp_path)

    assert (checks.run_log.failure is None) is (bool(names) == is_kept)


@pytest.mark.parametrize(("names", "is_kept"), [((), False), (("requested-1",), True)], ids=["deleted", "kept"])
async def test_an_order_that_names_a_final_checkpoint_keeps_one_of_a_job_that_does_not_run(tmp_path, names, is_kept):
    checks = checks_of(builders.job(status=Status.FAILED, stop_orders=(replace(DISCARD, final_checkpoint_named=True),)))
    for name in names:
        (tmp_path / name).touch()

    checks.check_end(lambda _: tmp_path)

    assert (checks.run_log.failure is None) is is_kept


@pytest.mark.parametrize(("signalled_at", "is_newer"), [(NOON, True), (None, False)], ids=["took over", "new"])
async def test_a_final_checkpoint_may_be_older_than_an_order_that_took_over_a_pause(signalled_at, is_newer):
    order = replace(PAUSE, kind=StopKind.TERMINATE, ordered_at=NOON + timedelta(seconds=9), signalled_at=signalled_at)
    job = builders.job(status=Status.FAILED, stop_orders=(order,))
    checks = checks_of(job)

    checks.committed(replace(job, stop_orders=(replace(order, final_checkpoint=None),)), job)

    assert (checks.run_log.failure is None) is is_newer


@pytest.mark.parametrize(("after_request", "is_kept"), [(-1, False), (1, True)], ids=["before", "after"])
@pytest.mark.parametrize("skew", [timedelta(), timedelta(hours=1), -timedelta(hours=1)], ids=str)
async def test_the_checkpoints_of_a_container_that_starts_after_the_request_are_kept(
    tmp_path, skew, after_request, is_kept
):
    """The times of the order are those of the server's clock, which is ahead of the true time by `skew`."""
    order = replace(DISCARD, ordered_at=NOON + skew, final_checkpoint_requested=True, final_checkpoint="requested-1")
    part = AttemptContainer(key="0/app", state=AttemptContainerState.RUNNING)
    attempt = Attempt(number=1, environment="local", placed_at=NOON + skew, containers=(part,))
    before = builders.job(status=Status.RUNNING, attempt=attempt)
    ordered = replace(before, stop_orders=(replace(order, final_checkpoint=None),))
    job = replace(ordered, status=Status.FAILED, attempt=None, attempts=(attempt,), stop_orders=(order,))
    checks = checks_of(job)
    checks.committed(before, ordered)
    tag = Tag(job_id=job.id, attempt=1, container_key="0/app")
    launch = LaunchSpec(tag=tag, spec=builders.container(), environment=())
    container = SimulatedContainer(id="2", launch=launch, script=Script())
    written_at = NOON + timedelta(seconds=after_request)
    checks.wrote(PlannedCheckpoint(container=container, path=Path("step-1"), at=written_at))
    for name in ("requested-1", "step-1"):
        (tmp_path / name).touch()

    checks.check_end(lambda _: tmp_path)

    assert (checks.run_log.failure is None) is is_kept


def checks_of(job):
    """The checks of a job whose first attempt wrote a checkpoint at noon."""
    run_log = RunLog()
    run_log.set_name(job.id, "job-1")
    jobs = {job.id: job}
    times = StoredTimes(jobs=jobs, containers=None, now=lambda: NOON, run_log=run_log)
    checks = CheckpointChecks(jobs=jobs, times=times, run_log=run_log)
    launch = LaunchSpec(tag=Tag(job_id=job.id, attempt=1), spec=builders.container(), environment=())
    container = SimulatedContainer(id="1", launch=launch, script=Script())
    checks.wrote(PlannedCheckpoint(container=container, path=Path("requested-1"), at=NOON))
    return checks


@pytest.mark.parametrize("state", [AttemptContainerState.RUNNING, AttemptContainerState.ENDED])
async def test_a_request_that_reaches_a_container_after_its_end_need_not_be_saved(state):
    rules = CheckpointRules(signal="USR1")
    part = AttemptContainer(key="0/app", state=state)
    attempt = Attempt(number=1, environment="local", placed_at=NOON, containers=(part,))
    spec = builders.spec(checkpoints=rules)
    job = builders.job(status=Status.RUNNING, spec=spec, attempt=attempt, stop_orders=(PAUSE,))
    run_log = RunLog()
    signals = SignalChecks(jobs={job.id: job}, now=lambda: NOON, run_log=run_log)

    signals.sent(Tag(job_id=job.id, attempt=1, container_key="0/app"), "SIGUSR1")

    assert (run_log.failure is None) is (state is AttemptContainerState.ENDED)
