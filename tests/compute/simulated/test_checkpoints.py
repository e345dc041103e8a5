"""The checkpoints that simulated containers write."""

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.compute.simulated.script import Script
from batchq.domain.ids import Tag
from batchq.domain.machines import one_machine
from batchq.ports.runtime import LaunchSpec
from tests.support.builders import job_id, resources
from tests.support.clock import VirtualClock
from tests.support.scripts import spec

TAG = Tag(job_id=job_id(1), attempt=1)


async def test_a_removed_container_writes_no_further_checkpoint(tmp_path):
    clock = VirtualClock()
    runtime = SimulatedRuntime(clock=clock, machines=one_machine(resources()))
    script = Script(seconds=60, checkpoints=("step-1",), on_request="requested", request_delay=3)
    launch = LaunchSpec(tag=TAG, spec=spec(script), environment=(), checkpoint_directory=str(tmp_path))
    await runtime.create(launch)
    await runtime.start(TAG)
    await runtime.signal_stop(TAG, "SIGUSR1")

    runtime.remove_externally(TAG)
    await clock.sleep(10)

    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    await runtime.close()
