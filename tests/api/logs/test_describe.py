"""DescribeLogStreams and DescribeLogGroups, by boto3."""

from datetime import timedelta

import pytest

from batchq.logs.service import GROUP
from tests.api.logs.conftest import ACCOUNT, FULL_NAME, REGION, STARTED
from tests.support.builders import NOON


async def names(boto, **members):
    pages = await boto.pages("describe_log_streams", logGroupName=GROUP, **members)
    return "".join(stream["logStreamName"][0] for page in pages for stream in page["logStreams"])


@pytest.fixture
async def three(backend):
    """Made in the order b, c, a."""
    return [
        await backend.runs(name=f"{name}/default/0", created_at=NOON + timedelta(seconds=number))
        for number, name in enumerate("bca")
    ]


async def test_a_stream_has_its_times_and_its_arn(boto, backend):
    stream = await backend.runs("a", "b")
    await backend.logs.capture(stream.tag)

    response = await boto.describe_log_streams(logGroupName=GROUP)

    (found,) = response["logStreams"]
    assert found.pop("storedBytes") >= 2
    assert found == {
        "logStreamName": stream.name,
        "creationTime": STARTED,
        "firstEventTimestamp": STARTED,
        "lastEventTimestamp": STARTED + 1,
        "lastIngestionTime": STARTED + 1,
        "arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{GROUP}:log-stream:{stream.name}",
    }


async def test_an_empty_stream_has_its_creation_to_the_millisecond_and_no_event_times(boto, backend):
    await backend.runs(created_at=NOON + timedelta(microseconds=1999))

    (found,) = (await boto.describe_log_streams(logGroupName=GROUP))["logStreams"]

    assert found.keys() == {"logStreamName", "creationTime", "arn", "storedBytes"}
    assert found["creationTime"] == STARTED + 1


async def test_invalid_queries_for_streams_are_refused(boto, three, refused):
    token = (await boto.describe_log_streams(logGroupName=GROUP, limit=1))["nextToken"]
    ordered = {"logGroupName": GROUP, "orderBy": "LastEventTime", "logStreamNamePrefix": "a"}
    other = {"logGroupName": "/aws/batch/other"}

    message = await refused("DescribeLogStreams", ordered)
    await refused("DescribeLogStreams", {"logGroupName": GROUP, "nextToken": token, "descending": True})
    await refused("DescribeLogStreams", other, code="ResourceNotFoundException")

    assert message == "Cannot order by LastEventTime with a logStreamNamePrefix."


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, "abc"),
        ({"descending": True}, "cba"),
        ({"orderBy": "LogStreamName", "logStreamNamePrefix": "b"}, "b"),
        ({"orderBy": "LastEventTime", "descending": True}, "acb"),
        ({"orderBy": "LastEventTime"}, "bca"),
    ],
)
async def test_streams_are_paged_in_each_order(boto, three, members, found, size):
    assert await names(boto, PaginationConfig={"PageSize": size}, **members) == found


async def test_a_page_of_one_log_group_continues_with_the_other(boto):
    first = await boto.describe_log_groups(limit=1)
    second = await boto.describe_log_groups(limit=1, nextToken=first["nextToken"])

    found = [group["logGroupName"] for page in (first, second) for group in page["logGroups"]]
    assert found == [GROUP, "/aws/sagemaker/TrainingJobs"]
    assert "nextToken" not in second


async def test_a_log_group_has_the_time_of_its_creation(boto):
    (group,) = (await boto.describe_log_groups(logGroupNamePrefix=GROUP))["logGroups"]

    assert group["creationTime"] == STARTED


@pytest.mark.parametrize(
    ("members", "count"),
    [
        ({"logGroupNamePrefix": "/aws/"}, 2),
        ({"logGroupNamePrefix": "/aws/batch"}, 1),
        ({"logGroupNamePattern": "trainingJobs"}, 1),
        ({"logGroupNamePrefix": "/aws/batch/jobs"}, 0),
        ({"logGroupNamePattern": "Batch"}, 1),
        ({"logGroupNamePattern": "lambda"}, 0),
        ({"logGroupIdentifiers": [FULL_NAME]}, 1),
        ({"logGroupIdentifiers": ["/other"]}, 0),
        ({"logGroupClass": "STANDARD", "limit": 1}, 1),
        ({"logGroupClass": "INFREQUENT_ACCESS"}, 0),
    ],
)
async def test_the_group_is_selected_by_matching_conditions(boto, members, count):
    assert len((await boto.describe_log_groups(**members))["logGroups"]) == count


@pytest.mark.parametrize("members", [{"nextToken": "x"}, {"logGroupNamePrefix": "/", "logGroupNamePattern": "a"}])
async def test_invalid_queries_for_groups_are_refused(boto, members):
    with pytest.raises(boto.exceptions.InvalidParameterException):
        await boto.describe_log_groups(**members)
