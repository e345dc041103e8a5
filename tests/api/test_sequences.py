"""Any sequence of requests has the results of a small model of AWS Batch."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.context import BatchRequest
from batchq.api.batch.routes import JOBS
from batchq.api.http import reply
from batchq.errors import Invalid
from tests.api.conftest import CONTAINER
from tests.api.fakes import ACCOUNT, Backend
from tests.api.several import DUO, GANG
from tests.support.builders import ADMIN
from tests.support.examples import examples

KINDS = {
    "one": {"type": "container", "containerProperties": CONTAINER},
    "duo": {"type": "container", "ecsProperties": DUO["ecsProperties"]},
    "gang": {"type": "multinode", "nodeProperties": GANG["nodeProperties"]},
}
STEPS = some.one_of(
    some.tuples(some.just("register"), some.sampled_from(sorted(KINDS)), some.just(0)),
    some.tuples(some.just("deregister"), some.sampled_from(sorted(KINDS)), some.integers(1, 3)),
    some.tuples(some.just("submit"), some.sampled_from(sorted(KINDS)), some.sampled_from([0, 0, 1, 2, 3])),
    some.tuples(some.just("follow"), some.sampled_from(sorted(KINDS)), some.integers(0, 4)),
    some.tuples(some.sampled_from(["cancel", "terminate"]), some.sampled_from(["no", "enough"]), some.integers(0, 5)),
)


@dataclass
class Known:
    """A job as the model has it."""

    kind: str
    size: int
    status: str = "SUBMITTED"
    reason: str | None = None
    flags: tuple[bool, bool] = (False, False)
    depends_on: list[dict[str, str]] = field(default_factory=list)


class Model:
    """The expected state after the requests. No job is placed: a job is SUBMITTED until it is stopped."""

    def __init__(self):
        self.backend = Backend()
        self.active = {kind: [] for kind in KINDS}
        self.revisions = dict.fromkeys(KINDS, 0)
        self.jobs = {}

    async def send(self, name, **members):
        """The response, or None after an error."""
        body = reply(members).body
        call = BatchRequest(
            body=body, arns=BatchArns(account=ACCOUNT, region="x"), key=None, arn="", keys=(), caller=ADMIN
        )
        try:
            return await JOBS[name](self.backend.context, call)
        except Invalid:
            return None

    async def register(self, kind, _):
        made = await self.send("RegisterJobDefinition", jobDefinitionName=kind, **KINDS[kind])
        self.revisions[kind] += 1
        self.active[kind].append(self.revisions[kind])
        assert made["revision"] == self.revisions[kind]

    async def deregister(self, kind, revision):
        await self.send("DeregisterJobDefinition", jobDefinition=f"{kind}:{revision}")
        self.active[kind] = [it for it in self.active[kind] if it != revision]

    async def submit(self, kind, size, **more):
        array = {"arrayProperties": {"size": size}} if size else {}
        made = await self.send("SubmitJob", jobName=kind, jobQueue="default", jobDefinition=kind, **array, **more)
        may = bool(self.active[kind]) and size != 1 and not (size and kind == "gang")
        assert (made is not None) == may
        if made is not None:
            self.jobs[made["jobId"]] = Known(kind=kind, size=size, depends_on=more.get("dependsOn", []))

    async def follow(self, kind, place):
        """A job that depends on an earlier one."""
        if self.jobs:
            await self.submit(kind, 0, dependsOn=[{"jobId": self.at(place)}])

    async def cancel(self, reason, place):
        await self.call_off("CancelJob", reason, place, (True, False))

    async def terminate(self, reason, place):
        await self.call_off("TerminateJob", reason, place, (False, True))

    async def call_off(self, operation, reason, place, flags):
        if not self.jobs:
            return
        job_id = self.at(place)
        assert await self.send(operation, jobId=job_id, reason=reason) == {}
        known = self.jobs[job_id]
        if known.status == "SUBMITTED":
            known.status, known.reason, known.flags = "FAILED", reason, flags

    def at(self, place):
        return list(self.jobs)[place % len(self.jobs)]

    async def compare(self):
        found = (await self.send("DescribeJobs", jobs=list(self.jobs)))["jobs"]
        assert [job["jobId"] for job in found] == list(self.jobs)
        for job, known in zip(found, self.jobs.values(), strict=True):
            self.compare_one(job, known)
        for status in ("SUBMITTED", "FAILED"):
            listed = (await self.send("ListJobs", jobQueue="default", jobStatus=status))["jobSummaryList"]
            expected = [job_id for job_id, known in self.jobs.items() if known.status == status]
            assert [job["jobId"] for job in listed] == expected[::-1]

    def compare_one(self, job, known):
        assert (job["status"], job.get("statusReason")) == (known.status, known.reason)
        assert (job["isCancelled"], job["isTerminated"]) == known.flags
        assert job.get("arrayProperties", {}).get("size", 0) == known.size
        assert job["dependsOn"] == known.depends_on
        assert ("ecsProperties" in job, "nodeProperties" in job) == (known.kind == "duo", known.kind == "gang")


async def play(steps):
    model = Model()
    await model.backend.create_default_queue()
    for name, *members in steps:
        await getattr(model, name)(*members)
    await model.compare()


@pytest.mark.fault("IN26")
@settings(max_examples=examples(100), deadline=None)
@given(some.lists(STEPS, max_size=25))
def test_any_sequence_of_requests_matches_the_model(steps):
    asyncio.run(play([("register", "one", 0), *steps]))
