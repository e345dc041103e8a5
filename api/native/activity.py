"""GetActivity: `POST /v1/batchq/activity` describes what ran, waited and ended in the last hours."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from batchq.api.http.answers import answer_of
from batchq.api.http.http import RequestBody, Word
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.activity import BILLION, ActivityBucket
from batchq.domain.ids import QueueName
from batchq.domain.times import milliseconds
from batchq.ports.responses.activity import ActivityBucketResponse, ActivityLimits, ActivityResponse, WaitResponse
from batchq.services.activity import DAY_HOURS, MAX_HOURS

operations = OperationTable()


class GetActivityRequest(RequestBody):
    """Which activity to describe."""

    #: The name of a queue; by default all queues that the caller may use, together.
    job_queue: Word | None = None
    #: Until now. Buckets are 5 minutes wide for at most a day, and an hour otherwise.
    hours: Annotated[int, Field(ge=1, le=MAX_HOURS)] = DAY_HOURS


@operations.add("GetActivity", "POST", "/v1/batchq/activity", Permission.SELF)
async def get_activity(parts: Parts, call: Call[GetActivityRequest]) -> ActivityResponse:
    """Describes how many jobs ran, waited and ended, and what they requested, in buckets of time.

    Jobs that the caller may not see are not counted.
    """
    queue = None if call.input.job_queue is None else QueueName(call.input.job_queue)
    found = await parts.overviews.activity.activity(queue, hours=call.input.hours, caller=call.caller)
    return ActivityResponse(
        at=milliseconds(found.at),
        first=milliseconds(found.first),
        bucket_seconds=found.width // timedelta(seconds=1),
        buckets=tuple(map(_bucket, found.buckets)),
        currency=found.currency,
    )


def _bucket(bucket: ActivityBucket) -> ActivityBucketResponse:
    load, ends, limits = bucket.load, bucket.ends, bucket.capacity
    p50, p95 = ends.wait(0.5), ends.wait(0.95)
    return answer_of(
        ActivityBucketResponse,
        ends,
        at=milliseconds(bucket.at),
        running=None if load is None else load.running,
        waiting=None if load is None else load.waiting,
        vcpus=None if load is None else load.millicpus / 1000,
        memory_mib=None if load is None else load.memory_mib,
        gpus=None if load is None else load.gpus,
        measured_jobs=load.measured if load is not None and load.measured else None,
        used_vcpus=load.used_millicpus / 1000 if load is not None and load.measured else None,
        used_memory_mib=load.used_mib if load is not None and load.measured else None,
        cost_per_hour=None if load is None or not load.hourly_cost else load.hourly_cost / BILLION,
        limits=None
        if limits is None
        else ActivityLimits(vcpus=limits.millicpus / 1000, memory_mib=limits.memory_mib, gpus=limits.gpus),
        wait=None if p50 is None or p95 is None else WaitResponse(p50=p50, p95=p95),
    )
