"""Final checkpoints of jobs that SageMaker's and ModelArts's operations created, and the answers that show them."""

import pytest
from aiohttp.test_utils import make_mocked_request
from msgspec.structs import replace

from batchq.api.operations.operations import Call
from batchq.api.training.modelarts import operations, wire
from batchq.api.training.sagemaker import routes
from batchq.api.training.sagemaker import wire as sagemaker_wire
from batchq.api.training.sagemaker.job_document import is_training_job
from batchq.compute.simulated.script import script_variable
from batchq.domain.enums import Status
from batchq.services.job_reads import JobSearchService, NamedJobService
from tests.support.parts import make_parts
from tests.support.scripts import IMAGE, command, lasting
from tests.support.world import HOST

NAME = "resnet"
WRITES = lasting(output=("ready",), checkpoints=("epoch-6",), term_checkpoint="epoch-7", term_delay=1)
WRITES_NONE = lasting(output=("ready",), checkpoints=("epoch-6",))


class Dialect:
    """The operations of one dialect on a job of a world."""

    def __init__(self, world):
        self._world = world

    @property
    def _parts(self):
        """The parts of the present server of the world."""
        world = self._world
        search = JobSearchService(
            engine=world.engine, store=world.store, directory=lambda: world.people, queues=world.catalog.queues_of
        )
        return make_parts(
            jobs=world.jobs,
            submissions=world.submissions,
            catalog=world.catalog,
            costs=world.server.costs,
            search=search,
            named=NamedJobService(search, is_named=is_training_job),
            clock=world.clock,
            capacity=lambda: HOST,
            runtime_answers=lambda: True,
        )

    async def start(self, script):
        """Create a job, and wait until its program is ready for signals."""
        job = await self._create(script)
        await self._world.wait_for(job, Status.RUNNING)
        await self._world.wait_for_output(job, "ready")
        return job


class ModelArts(Dialect):
    stopped = "Terminated"

    def _call(self, body, job=None):
        return Call(caller=self._world.caller, input=body, path={"project": "p", "job": job}, http=None)

    async def _create(self, script):
        size = {"cpu_core_num": 0.25, "mem_size": 0.0625}
        text = command(script)[-1]
        algorithm = {"command": text, "engine": {"image_url": IMAGE}, "environments": dict([script_variable(script)])}
        resource = {"main_container_customized_flavor": size}
        body = {"metadata": {"name": NAME}, "algorithm": algorithm, "spec": {"resource": resource}}
        call = self._call(wire.CreateTrainingJob.model_validate(body))
        return (await operations.create_modelarts_job(self._parts, call)).metadata.id

    async def stop(self, job):
        await operations.stop_training_job(
            self._parts, self._call(wire.TrainingJobAction(action_type="terminate"), job)
        )

    async def shown(self, job):
        """The phase, and the texts of the events about the final checkpoint."""
        call = self._call(wire.TrainingEventsQuery(order="asc"), job)
        events = (await operations.list_modelarts_events(self._parts, call)).events
        phase = (await operations.show_training_job(self._parts, self._call(None, job))).status.phase
        return phase, [event.message.partition(":")[0] for event in events if "checkpoint" in event.message]


class SageMaker(Dialect):
    stopped = "Stopped"

    def _request(self, body):
        return Call(caller=self._world.caller, input=body, path={}, http=make_mocked_request("POST", "/"))

    @property
    def _named(self):
        return sagemaker_wire.SageMakerNamedTrainingJob(TrainingJobName=NAME)

    async def _create(self, script):
        *entry, text = command(script)
        body = sagemaker_wire.SageMakerCreateTrainingJob.model_validate(
            {
                "TrainingJobName": NAME,
                "AlgorithmSpecification": {
                    "TrainingImage": IMAGE,
                    "TrainingInputMode": "File",
                    "ContainerEntrypoint": entry,
                    "ContainerArguments": [text],
                },
                "RoleArn": "arn:aws:iam::123456789012:role/a-role",
                "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
                "ResourceConfig": {"InstanceType": "batchq.cpu.0.25u0.0625g", "InstanceCount": 1, "VolumeSizeInGB": 1},
                "StoppingCondition": {"MaxRuntimeInSeconds": 600},
                "Environment": dict([script_variable(script)]),
            }
        )
        await routes.create_sagemaker_job(self._parts, self._request(body), body)
        return (await self._parts.named.own(NAME, caller=self._world.caller)).id

    async def stop(self, job):
        await routes.stop_sagemaker_job(self._parts, self._request(self._named), self._named)

    async def shown(self, job):
        """The status, and the part of the last transition's message about the final checkpoint."""
        answer = await routes.describe_sagemaker_job(self._parts, self._request(self._named), self._named)
        _, dot, text = answer["SecondaryStatusTransitions"][-1]["StatusMessage"].partition(". ")
        return answer["TrainingJobStatus"], [text] if dot else []


SHOWN = {ModelArts: ["The final checkpoint is written (epoch-7)"], SageMaker: ["Final checkpoint: epoch-7"]}
each_dialect = pytest.mark.parametrize("dialect", [ModelArts, SageMaker])


async def checkpoints(training, job):
    found = (await training.ask("GET", f"/{job}/checkpoints?sortBy=createdAt&sortOrder=asc"))["checkpoints"]
    return [(item["name"], item["type"]) for item in found]


@each_dialect
async def test_a_cancel_with_a_final_checkpoint_shows_the_checkpoint_that_was_written(world, training, dialect):
    jobs = dialect(world)
    job = await jobs.start(WRITES)

    answer = await training.cancel(job, createFinalCheckpoint=True)

    assert (answer.status, answer["cancellationDetails"]["finalCheckpointRequested"]) == (200, True)
    await world.wait_for(job, Status.FAILED)
    details = (await training.show(job))["cancellationDetails"]
    assert (details["finalCheckpointCreated"], details["finalCheckpointError"]) == (True, None)
    assert await checkpoints(training, job) == [("epoch-6", "automatic"), ("epoch-7", "final")]
    assert await jobs.shown(job) == (dialect.stopped, SHOWN[dialect])


async def test_a_stop_by_sagemaker_writes_a_final_checkpoint(world, training):
    jobs = SageMaker(world)
    job = await jobs.start(WRITES)

    await jobs.stop(job)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.stop.final_checkpoint, done.stop.checkpoint_error) == ("epoch-7", None)
    assert await checkpoints(training, job) == [("epoch-6", "automatic"), ("epoch-7", "final")]
    assert await jobs.shown(job) == ("Stopped", ["Final checkpoint: epoch-7"])


async def test_a_stop_by_sagemaker_shows_that_the_program_wrote_no_final_checkpoint(world, training):
    jobs = SageMaker(world)
    job = await jobs.start(WRITES_NONE)

    await jobs.stop(job)

    await world.wait_for(job, Status.FAILED)
    assert await jobs.shown(job) == ("Stopped", ["No final checkpoint: none when the container ended"])


async def test_a_termination_by_modelarts_keeps_what_the_program_writes_and_requests_nothing(world, training):
    jobs = ModelArts(world)
    job = await jobs.start(WRITES)

    await jobs.stop(job)

    done = await world.wait_for(job, Status.FAILED)
    assert (done.stop.final_checkpoint_requested, done.stop.checkpoint_error) == (False, None)
    assert [name for name, _ in await checkpoints(training, job)] == ["epoch-6", "epoch-7"]
    assert await jobs.shown(job) == ("Terminated", [])


@each_dialect
async def test_a_pause_writes_a_checkpoint_from_which_the_job_of_a_dialect_continues(world, training, dialect):
    jobs = dialect(world)
    job = await jobs.start(replace(WRITES, prints_environment=("BATCHQ_RESUME_FROM",)))

    await training.ask("POST", f"/{job}/pause")
    await world.wait_until(job, lambda job: job.held)
    assert await checkpoints(training, job) == [("epoch-6", "automatic"), ("epoch-7", "final")]
    await training.ask("POST", f"/{job}/resume")

    await world.wait_for_output(job, "/opt/ml/checkpoints/epoch-7")
    await world.terminate(job)
    await world.wait_for(job, Status.FAILED)
    assert (await jobs.shown(job))[0] == dialect.stopped


@each_dialect
async def test_a_forced_stop_of_a_job_of_a_dialect_is_shown(world, training, dialect):
    jobs = dialect(world)
    job = await jobs.start(WRITES)

    await training.cancel(job, force=True)

    await world.wait_for(job, Status.FAILED)
    assert await jobs.shown(job) == (dialect.stopped, [])
