"""The whole engine at that work."""

from datetime import timedelta

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.catalog import ShareWeight
from batchq.domain.container import Resources
from batchq.domain.ids import Tag
from batchq.domain.scheduling.capacity import usable
from batchq.engine.engine import Engine
from batchq.engine.mailbox import Mailbox
from tests.engine.turns import ground
from tests.schedule.witness import Sums, Witness
from tests.schedule.work import FAIR, FIFO, WEIGHTS, Task, waves
from tests.support.builders import ADMIN, NO_ACCOUNTS, environment, policy, queue
from tests.support.clock import VirtualClock
from tests.support.history import ObservedStore
from tests.support.inline import InlineStore

LOAD = 1.2  # of what the machine can do, while the work comes in
PATIENCE = timedelta(days=7)


async def live(jobs: int, *, vcpus: int, seed: int) -> Sums:
    """A machine of so many vCPUs, in two environments that both queues use, does so many jobs."""
    clock, inbox = VirtualClock(), Mailbox()
    host = Resources(millicpus=1000 * vcpus, memory_mib=2560 * vcpus)
    environments = {"east": 500 * vcpus, "west": 500 * vcpus}
    witness = Witness(usable(host), environments, clock)
    engine = Engine(
        inbox=inbox,
        store=ObservedStore(InlineStore(), witness.record),
        ground=_ground(environments),
        runtime=SimulatedRuntime(clock=clock, capacity=host),
        accounts=NO_ACCOUNTS,
        keep_log=_keep_nothing,
        clock=clock,
        survey_every=600.0,
    )
    await engine.start()
    for wave in waves(jobs, seed):
        for task in wave:
            await engine.submit(job_id=task.job_id, spec=task.spec, tags=(), key=None, caller=ADMIN)
        await clock.sleep(sum(map(_work, wave)) / (1000 * vcpus) / LOAD)
    ends = clock.now() + PATIENCE
    while witness.left and clock.now() < ends:
        await clock.sleep(60)
    await engine.stop()
    return witness.sums()


def _ground(environments):
    names = tuple(environments)
    return ground(
        queue(FAIR, policy="fair", environments=names),
        queue(FIFO, environments=names[::-1], priority=2),
        environments=[environment(name, max_millicpus=most) for name, most in environments.items()],
        policies=[policy(shares=_weights())],
    )


def _weights():
    return tuple(ShareWeight(identifier=share, weight=weight) for share, weight in WEIGHTS.items())


def _work(task: Task) -> float:
    return task.millicpu_seconds


async def _keep_nothing(_: Tag) -> bool:
    return False
