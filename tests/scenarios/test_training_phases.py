"""How the dialects for training jobs spell each phase of a job, and what ModelArts's StopTrainingJob replies in each.

The words are those of batchq's own dialect, of ModelArts (phase/secondary_phase) and of SageMaker
(TrainingJobStatus/SecondaryStatus).
"""

import pytest

from batchq.api.operations.operations import Call
from batchq.api.training.modelarts import operations
from batchq.api.training.modelarts.wire import ModelArtsRefusal, TrainingJobAction
from batchq.api.training.rest import job_answers as rest
from batchq.api.training.sagemaker import job_document as sagemaker
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.training_jobs import TrainingJobView
from tests.support.parts import make_parts
from tests.support.scripts import HANDLES_SIGTERM, IGNORES_SIGTERM, LASTING, Script
from tests.support.world import HOST

EXITS_1 = Script(seconds=60, on_term=1, output=("ready",))  # with exit code 0 the pause would end the job
WHOLE = 4000  # all vCPUs of the environment, in thousandths
NOWHERE = "127.0.0.1:1/none:latest"


class TrainingJobs:
    """The operations of ModelArts, and the words of all dialects, in a world."""

    def __init__(self, world):
        self._world = world
        self._parts = make_parts(
            jobs=world.jobs,
            catalog=world.catalog,
            job_log=world.server.job_log,
            clock=world.clock,
            capacity=lambda: HOST,
            runtime_answers=lambda: world.engine.start_obstacle() != status_reasons.ENGINE_AWAY,
        )

    async def words(self, job_id):
        shown = (await operations.show_training_job(self._parts, self._call(job_id))).status
        phase = TrainingJobView(await self._world.job(job_id)).phase
        return f"{rest.STATUSES[phase]} {shown.phase}/{shown.secondary_phase} {'/'.join(sagemaker.STATUSES[phase])}"

    async def terminate(self, job_id):
        """The phase of the answer, or the status and code of the refusal."""
        try:
            action = TrainingJobAction(action_type="terminate")
            answer = await operations.stop_training_job(self._parts, self._call(job_id, action))
        except ModelArtsRefusal as refused:
            return int(refused.status), refused.code
        return answer.status.phase

    async def log(self, job_id, task="worker-0"):
        """The content of the preview; None until the task has run. The code of a refusal."""
        try:
            answer = await operations.show_log_preview(self._parts, self._call(job_id, task=task))
        except ModelArtsRefusal as refused:
            return refused.code
        return answer and (answer.content, answer.current_size, answer.full_size)

    def _call(self, job_id, body=None, *, task=""):
        path = {"project": "p", "job": job_id, "task": task}
        return Call(caller=self._world.caller, input=body, path=path, http=None)


NOT_TERMINABLE = (409, "ModelArts.2796")
RUNNING = "running Running/Running InProgress/Training"
STOPPED = "cancelled Terminated/Terminated Stopped/Stopped"


@pytest.fixture
def training(world):
    return TrainingJobs(world)


async def waiting_for_another(world):
    job = await world.submit(after=[await world.submit(LASTING)])
    await world.wait_for(job, Status.PENDING)
    return job


async def waiting_for_room(world):
    _, job = await world.submit_behind()
    return job


async def held(world):
    return await world.submit_held(millicpus=WHOLE)


@pytest.mark.parametrize(
    ("state", "word"), [(waiting_for_another, "queued"), (waiting_for_room, "queued"), (held, "paused")]
)
async def test_a_queued_job_is_pending_and_is_terminated_at_once(world, training, state, word):
    job = await state(world)

    assert await training.words(job) == f"{word} Pending/Queuing InProgress/Pending"
    assert await training.terminate(job) == "Terminated"
    assert await training.words(job) == STOPPED
    assert await training.terminate(job) == NOT_TERMINABLE


async def test_a_starting_job_is_pending_until_its_container_runs(world, training):
    job = await world.submit_until("create", HANDLES_SIGTERM)

    assert await training.words(job) == "initializing Pending/Creating InProgress/Downloading"
    assert await training.terminate(job) == "Terminating"
    assert await training.terminate(job) == NOT_TERMINABLE
    world.runtime.release("create")
    await world.wait_for(job, Status.FAILED)
    assert await training.words(job) == STOPPED


@pytest.mark.parametrize("script", [HANDLES_SIGTERM, IGNORES_SIGTERM], ids=["handles the signal", "ignores the signal"])
async def test_a_running_job_is_terminating_until_its_container_has_exited(world, training, script):
    world.runtime.hold("stop")
    job = await world.start(script, attempts=3)

    assert await training.words(job) == RUNNING
    assert await training.terminate(job) == "Terminating"
    assert await training.words(job) == "cancelling Terminating/Terminating Stopping/Stopping"
    assert await training.terminate(job) == NOT_TERMINABLE
    world.runtime.release("stop")
    done = await world.wait_for(job, Status.FAILED, status_reason=f"Terminated by {world.caller.user}")
    assert await training.words(job) == STOPPED
    assert await training.terminate(job) == NOT_TERMINABLE
    assert len(done.attempts) == 1


async def test_a_job_that_is_paused_is_running_until_its_container_has_exited(world, training):
    world.runtime.hold("stop")
    job = await world.start(EXITS_1)

    await world.pause(job)

    assert await training.words(job) == "pausing Running/Running InProgress/Training"
    world.runtime.release("stop")
    await world.wait_for(job, Status.RUNNABLE)
    assert await training.words(job) == "paused Pending/Queuing InProgress/Pending"
    assert await training.terminate(job) == "Terminated"


async def test_a_job_that_is_being_paused_can_be_terminated(world, training):
    world.runtime.hold("stop")
    job = await world.start(EXITS_1)
    await world.pause(job)

    assert await training.terminate(job) == "Terminating"
    world.runtime.release("stop")
    await world.wait_for(job, Status.FAILED)
    assert await training.words(job) == STOPPED


async def test_the_phase_of_a_running_job_is_not_certain_while_the_engine_is_away(world, training):
    job = await world.start()

    world.runtime.unreachable = True
    await world.wait_for_engine(up=False)

    assert await training.words(job) == "running Running/Unknown InProgress/Training"
    world.runtime.unreachable = False
    await world.wait_for_engine(up=True)
    assert await training.words(job) == RUNNING


async def succeeded(world):
    return await world.run()


async def failed(world):
    return await world.run(Script(seconds=0, exit_code=3), Status.FAILED)


async def timed_out(world):
    return await world.run(HANDLES_SIGTERM, Status.FAILED, limit=1)


async def cancelled(world):
    job = await held(world)
    await world.cancel(job)
    return job


async def without_an_image(world):
    if world.virtual:
        world.machine.engine.missing_images[NOWHERE] = "connection refused"
    return await world.run(Script(seconds=0), Status.FAILED, image=NOWHERE)


async def after_a_failed_one(world):
    before = await world.submit_held()
    job = await world.submit(after=[before])
    await world.wait_for(job, Status.PENDING)
    await world.terminate(before)
    await world.wait_for(job, Status.FAILED)
    return job


async def without_its_container(world):
    job = await world.submit(LASTING)
    running = await world.wait_for(job, Status.RUNNING)
    await world.crash()
    await world.runtime.remove(running.tag)
    await world.boot()
    await world.wait_for(job, Status.FAILED)
    return job


async def force_failed(world):
    world.runtime.hold("stop")
    job = await world.start()
    await world.terminate(job)
    await world.force_fail(job)
    world.runtime.release("stop")
    return job


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (succeeded, "completed Completed/Completed Completed/Completed"),
        (failed, "failed Failed/Failed Failed/Failed"),
        (timed_out, "failed Terminated/Terminated Stopped/MaxRuntimeExceeded"),
        (cancelled, STOPPED),
        (without_an_image, "failed Abnormal/CreateFailed Failed/Failed"),
        (after_a_failed_one, "failed Abnormal/CreateFailed Failed/Failed"),
        (without_its_container, "failed Abnormal/Lost Failed/Failed"),
        (force_failed, "cancelled Abnormal/TerminatedFailed Stopped/Stopped"),
    ],
)
async def test_an_ended_job_has_its_phase_and_cannot_be_terminated(world, state, words):
    job = await state(world)

    training = TrainingJobs(world)  # a state may restart the server
    assert await training.words(job) == words
    assert await training.terminate(job) == NOT_TERMINABLE
    assert await training.words(job) == words


async def test_a_log_preview_has_the_lines_of_a_task_that_has_run(world, training):
    waiting = await held(world)
    job = await world.run(Script(seconds=0, output=("one", "two")))

    assert await training.log(waiting) is None
    assert await training.log(job) == ("one\ntwo\n", 8, 8)
    assert await training.log(job, "worker-1") == "ModelArts.2788"
