"""The checks of the checkpoint directories accept what the stop orders of a job require, and nothing else."""

from pathlib import Path

import pytest

from batchq.compute.simulated.engine import PlannedCheckpoint, SimulatedContainer
from batchq.compute.simulated.script import Script
from batchq.domain.ids import Tag
from batchq.domain.job import Status
from batchq.domain.stop_values import StopKind, StopOrder
from batchq.ports.runtime import LaunchSpec
from tests.simulation.checkpoints import CheckpointChecks
from tests.simulation.run_log import RunLog
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
    run_log = RunLog()
    checks = CheckpointChecks(jobs={job.id: job}, times=None, run_log=run_log)
    launch = LaunchSpec(tag=Tag(job_id=job.id, attempt=1), spec=builders.container(), environment=())
    container = SimulatedContainer(id="1", launch=launch, script=Script())
    run_log.set_name(job.id, "job-1")
    checks.wrote(PlannedCheckpoint(container=container, path=Path("requested-1"), at=NOON))
    for name in names:
        (tmp_path / name).touch()

    checks.check_end(lambda _: tmp_path)

    assert (run_log.failure is None) is (bool(names) == is_kept)
