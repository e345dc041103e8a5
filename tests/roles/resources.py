"""Jobs and definitions of users, which other users try to read and to change."""

import json
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from urllib.parse import quote
from uuid import uuid4

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.group_terms import GROUP_TAG
from tests.roles.people import MODELARTS, PEOPLE, Request, sagemaker
from tests.service.waiting import container, until

ARN = "arn:aws:batch:us-east-1:123456789012:"
LICENCES = "licences"
ENDPOINT_HOST = "127.0.0.1:9"  # where no program listens
ENDPOINT = f"http://{ENDPOINT_HOST}/"
REASON = "stopped by the matrix"

_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A job and its definition. `stream` is that of its attempt, where it has had one."""

    job: str
    definition: str
    stream: str = ""

    @property
    def ref(self):
        return f"{self.definition}:1"

    @property
    def job_arn(self):
        return quote(f"{ARN}job/{self.job}", safe="")

    @property
    def definition_arn(self):
        return quote(f"{ARN}job-definition/{self.ref}", safe="")

    def masked(self, text):
        """`text` with the names of this job and definition replaced."""
        for name in (self.job, self.stream, self.definition):
            text = text.replace(name.encode() or b"\0", b"<it>")
        return text


def absent():
    """A job and a definition that do not exist, with valid names."""
    name = f"absent-{next(_numbers)}"
    return Owned(job=str(uuid4()), definition=name, stream=f"{name}/default/{uuid4().hex}")


class Resources:
    """The resources of users on a server.

    In the queue `still` jobs stay RUNNABLE, in `default` they run at once, in `wide` many run at the same time.
    """

    def __init__(self, server):
        self._server = server
        self._kept = {}

    def prepare(self):
        machines = {"type": "EC2", "minvCpus": 0, "maxvCpus": 1, "subnets": [], "instanceRole": "a-role"}
        fields = {"computeEnvironmentName": "narrow", "type": "MANAGED", "computeResources": machines}
        self._server.do("amy", "CreateComputeEnvironment", **fields)
        order = [{"order": 1, "computeEnvironment": "narrow"}]
        for name in ("still", "front"):
            self._server.do("amy", "CreateJobQueue", jobQueueName=name, priority=1, computeEnvironmentOrder=order)
        wide = fields | {"computeEnvironmentName": "wide", "computeResources": machines | {"maxvCpus": 64}}
        self._server.do("amy", "CreateComputeEnvironment", **wide)
        order = [{"order": 1, "computeEnvironment": "wide"}]
        self._server.do("amy", "CreateJobQueue", jobQueueName="wide", priority=1, computeEnvironmentOrder=order)
        self._server.do("amy", "CreateConsumableResource", consumableResourceName=LICENCES, totalQuantity=1000)
        blocker = self.defined("amy", Script(seconds=None, on_term=0))
        self.until(self.submit("amy", blocker), "RUNNING")
        # A machine shows the jobs that started first, and tests leave jobs that run.
        for owner in PEOPLE.users.keys() - {"zoe"}:
            self.kept(owner, "running")

    def defined(self, owner, script=None, **members):
        name = f"{owner}-{next(_numbers)}"
        self._server.do(
            owner, "RegisterJobDefinition", jobDefinitionName=name, **_definition(script or Script()), **members
        )
        return name

    def submit(self, owner, definition, queue="still", **fields):
        made = self._server.do(owner, "SubmitJob", jobName="a-job", jobQueue=queue, jobDefinition=definition, **fields)
        return made["jobId"]

    def fresh(self, owner):
        """A new job and definition of the owner, used by one cell."""
        definition = self.defined(owner)
        return Owned(job=self.submit(owner, definition), definition=definition)

    def kept(self, owner, kind="fresh"):
        """The job and definition of this kind that all reading cells of the owner share."""
        if (owner, kind) not in self._kept:
            self._kept[owner, kind] = getattr(self, kind)(owner)
        return self._kept[owner, kind]

    def ran(self, owner):
        definition = self.defined(owner, Script(seconds=0, output=("hello",)))
        job = self.submit(owner, definition, queue="default")
        return Owned(job=job, definition=definition, stream=self.until(job, "SUCCEEDED")["container"]["logStreamName"])

    def running(self, owner):
        definition = self.defined(owner, Script(seconds=None, on_term=0))
        job = self.submit(owner, definition, queue="wide")
        self.until(job, "RUNNING")
        return Owned(job=job, definition=definition)

    def first(self, owner):
        """A job at the front of its queue."""
        definition = self.defined(owner)
        return Owned(job=self.submit(owner, definition, queue="front"), definition=definition)

    def licensed(self, owner):
        need = {"consumableResourceList": [{"consumableResource": LICENCES, "quantity": 1}]}
        definition = self.defined(owner, consumableResourceProperties=need)
        return Owned(job=self.submit(owner, definition), definition=definition)

    def array(self, owner):
        definition = self.defined(owner)
        job = self.submit(owner, definition, arrayProperties={"size": 2})
        self.until(f"{job}:1", "RUNNABLE")
        return Owned(job=job, definition=definition)

    def webhook(self, owner):
        """A webhook of the owner, in the place of the job."""
        name = f"hook-{next(_numbers)}"
        request = Request(path="/v1/batchq/createwebhook", body={"webhookName": name, "url": ENDPOINT})
        created = self._server.send(owner, request)
        return Owned(job=created.content["webhook"]["webhookId"], definition=name)

    def gang(self, owner):
        name = f"{owner}-{next(_numbers)}"
        parts = [{"targetNodes": "0:", "container": _container(Script())}]
        nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": parts}
        self._server.do(owner, "RegisterJobDefinition", jobDefinitionName=name, type="multinode", nodeProperties=nodes)
        return Owned(job=self.submit(owner, name), definition=name)

    def grouped(self, owner):
        """A group with one job; `job` is the id of the group."""
        definition = self.defined(owner)
        self.submit(owner, definition, tags={GROUP_TAG: definition})
        listed = Request(path="/v1/batchq/listgroups", body={"groupName": definition})
        (group,) = json.loads(self._server.send(owner, listed).body)["groups"]
        return Owned(job=group["groupId"], definition=definition)

    def sagemaker(self, owner):
        """A queued training job of the SageMaker dialect; `job` is its name."""
        name = f"{owner}-{next(_numbers)}"
        answer = self._server.send(owner, sagemaker("CreateTrainingJob", **training_job(name)))
        assert answer.status == HTTPStatus.OK, answer
        return Owned(job=name, definition="")

    def trained(self, owner):
        """A training job of the SageMaker dialect that has run, and wrote a line; `job` is its name."""
        name = f"{owner}-{next(_numbers)}"
        variable, value = script_variable(Script(seconds=0, output=("hello",)))
        request = training_job(name) | {"Tags": [], "Environment": {variable: value}}
        answer = self._server.send(owner, sagemaker("CreateTrainingJob", **request))
        assert answer.status == HTTPStatus.OK, answer
        describe = sagemaker("DescribeTrainingJob", TrainingJobName=name)
        until(lambda: b'"Completed"' in self._server.send(owner, describe).body)
        return Owned(job=name, definition="")

    def modelarts(self, owner):
        """A queued job of the ModelArts dialect."""
        name = f"{owner}-{next(_numbers)}"
        answer = self._server.send(owner, Request(path=f"{MODELARTS}/training-jobs", body=modelarts_job(name)))
        assert answer.status == HTTPStatus.CREATED, answer
        return Owned(job=answer.content["metadata"]["id"], definition="")

    def until(self, job, status):
        """The description of the job, or of the child of an array, once it has the status."""

        def described():
            return self._server.do("amy", "DescribeJobs", jobs=[job])["jobs"]

        until(lambda: [found["status"] for found in described()] == [status], described)
        return described()[0]


def modelarts_job(name):
    """A CreateTrainingJob request of the ModelArts dialect, in the queue `still`."""
    size = {"cpu_core_num": 1, "mem_size": 0.0625}
    return {
        "metadata": {"name": name},
        "algorithm": {"command": "true", "engine": {"image_url": "batchq-test:latest"}},
        "spec": {"resource": {"pool_id": "still", "main_container_customized_flavor": size}},
    }


def training_job(name):
    """A CreateTrainingJob request of the SageMaker dialect, in the queue `still`."""
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "x", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/a-role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
        "ResourceConfig": {"InstanceType": "batchq.cpu.1u0.0625g"},
        "Tags": [{"Key": "batchq:queue", "Value": "still"}],
    }


def _definition(script):
    return {"type": "container", "containerProperties": _container(script)}


def _container(script):
    name, value = script_variable(script)
    return container(environment=[{"name": name, "value": value}])
