"""GetLogEvents by boto3: loops over pages end, and return each line once."""

import pytest
from botocore.exceptions import ClientError

from batchq.errors import StoreFailed
from batchq.logs.service import GROUP
from tests.api.logs.conftest import ACCOUNT, FULL_NAME, REGION, STARTED
from tests.support.inline import InlineLogFiles


async def get(boto, stream, **members):
    return await boto.get_log_events(logGroupName=GROUP, logStreamName=stream.name, **members)


def messages(page):
    return [event["message"] for event in page["events"]]


async def read_all(boto, stream, token="nextForwardToken", **members):
    """Read as Airflow does: from one end of the stream, until the token repeats."""
    pages, last = [], None
    while not pages or pages[-1][token] != last:
        more = {} if not pages else {"nextToken": (last := pages[-1][token])}
        pages.append(await get(boto, stream, startFromHead=token == "nextForwardToken", **members, **more))
    ordered = pages if token == "nextForwardToken" else reversed(pages)
    return [message for page in ordered for message in messages(page)]


async def test_a_page_has_the_last_events_oldest_first_and_tokens_in_both_directions(boto, backend):
    stream = await backend.runs("a", "b")

    page = await get(boto, stream, limit=1)

    assert page["events"] == [{"timestamp": STARTED + 1, "message": "b", "ingestionTime": STARTED + 1}]
    for name, start in (("nextForwardToken", "f/"), ("nextBackwardToken", "b/")):
        assert (page[name][:2], len(page[name]), page[name][2:].isdecimal()) == (start, 58, True)


@pytest.mark.parametrize("token", ["nextForwardToken", "nextBackwardToken"])
@pytest.mark.parametrize("lines", ["abcdefg", ""])
@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_the_loop_in_each_direction_ends_and_returns_each_line_once(boto, backend, limit, lines, token):
    stream = await backend.runs(*lines)

    assert await read_all(boto, stream, token, limit=limit) == [*lines]


async def test_the_last_page_has_tokens_in_both_directions(boto, backend):
    stream = await backend.runs(*"abcde")
    last = await get(boto, stream, limit=2)
    backend.writes(stream, "new", after=100)

    back = await get(boto, stream, limit=2, nextToken=last["nextBackwardToken"])
    onwards = await get(boto, stream, nextToken=last["nextForwardToken"])

    assert (messages(back), messages(onwards)) == (["b", "c"], ["new"])


async def test_the_log_of_a_running_job_is_read_while_it_writes(boto, backend):
    stream = await backend.runs("a")
    first = await get(boto, stream, startFromHead=True)
    nothing = await get(boto, stream, startFromHead=True, nextToken=first["nextForwardToken"])
    backend.writes(stream, "b", after=2000)

    page = await get(boto, stream, startFromHead=True, nextToken=nothing["nextForwardToken"])

    assert (messages(nothing), messages(page)) == ([], ["b"])
    assert nothing["nextForwardToken"] == first["nextForwardToken"]


async def test_the_start_time_is_inclusive_and_the_end_time_exclusive(boto, backend):
    stream = await backend.runs(*"abcde")
    span = {"startTime": STARTED + 1, "endTime": STARTED + 3}

    assert await read_all(boto, stream, limit=1, **span) == ["b", "c"]
    assert await read_all(boto, stream, "nextBackwardToken", **span) == ["b", "c"]


async def test_a_page_has_at_most_a_mebibyte(boto, backend):
    stream = await backend.runs(*["x" * 200_000] * 12)

    assert len(messages(await get(boto, stream))) == 5
    assert len(await read_all(boto, stream, "nextBackwardToken")) == 12


async def test_log_text_is_returned_unchanged(boto, backend):
    stream = await backend.runs("\0\x1b[1m\t", "É☃𝄞\u2028", '{"a": "b\\n"}', "\ufffd")

    assert await read_all(boto, stream) == ["\0\x1b[1m\t", "É☃𝄞\u2028", '{"a": "b\\n"}', "\ufffd"]


@pytest.mark.parametrize(
    "group", [GROUP, FULL_NAME, f"{FULL_NAME}:*", f"arn:aws:logs:ap-south-1:{ACCOUNT}:log-group:{GROUP}"]
)
async def test_the_group_can_be_named_by_its_identifier(boto, backend, group):
    stream = await backend.runs("a")

    assert messages(await boto.get_log_events(logGroupIdentifier=group, logStreamName=stream.name)) == ["a"]


OTHER = {"logGroupName": "/aws/batch/other"}
UNKNOWN = [
    *(OTHER, {"logGroupName": FULL_NAME[:512]}, {"logGroupIdentifier": "/aws/batch/other"}),
    {"logGroupIdentifier": f"arn:aws:logs:us-east-1:999999999999:log-group:{GROUP}"},
    {"logGroupIdentifier": f"{FULL_NAME}:log-stream:x"},
]


async def test_an_unknown_group_or_stream_gets_the_error_of_aws(refused, backend):
    stream, not_found = await backend.runs("a"), "ResourceNotFoundException"

    for group in UNKNOWN:
        message = await refused("GetLogEvents", {**group, "logStreamName": stream.name}, code=not_found)
        assert message == "The specified log group does not exist."
    unknown = {"logGroupName": GROUP, "logStreamName": "a/default/b"}
    assert await refused("GetLogEvents", unknown, code=not_found) == "The specified log stream does not exist."


@pytest.mark.parametrize(
    "group", [{"logGroupName": "/mine"}, {"logGroupIdentifier": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/mine:*"}]
)
async def test_a_stream_is_also_in_the_group_that_its_job_definition_names(boto, backend, refused, group):
    mine, other = await backend.runs("a", group="/mine"), await backend.runs("b", group="/theirs")

    assert messages(await boto.get_log_events(**group, logStreamName=mine.name)) == ["a"]
    assert messages(await boto.filter_log_events(**group, logStreamNames=[mine.name])) == ["a"]
    assert messages(await get(boto, mine)) == ["a"]
    for names in ({"logStreamName": other.name}, {"logStreamName": "a/default/b"}):
        assert await refused("GetLogEvents", {**group, **names}, code="ResourceNotFoundException")
    for names in ({"logStreamNames": [mine.name, other.name]}, {}):
        assert await refused("FilterLogEvents", {**group, **names}, code="ResourceNotFoundException")


@pytest.mark.parametrize("group", [{}, {"logGroupName": GROUP, "logGroupIdentifier": GROUP}])
async def test_exactly_one_group_must_be_named(refused, backend, group):
    stream = await backend.runs("a")

    assert "Exactly one of" in await refused("GetLogEvents", {**group, "logStreamName": stream.name})


async def test_a_token_of_another_stream_and_a_forged_one_are_refused(refused, boto, backend):
    stream, other = await backend.runs("a"), await backend.runs("b")
    ours, others = [(await get(boto, stream_name))["nextForwardToken"] for stream_name in (stream, other)]
    members = {"logGroupName": GROUP, "logStreamName": stream.name}
    of_no_digits = "f", "f/", "x/" + "0" * 56, "f/" + "0" * 55, "f/" + "\u0660" * 56, "a" * 2000, " ", "🦆"

    for token in (others, "f/" + "9" * 56, "b/" + "0" * 56, *of_no_digits):
        assert await refused("GetLogEvents", members | {"nextToken": token}) == "The specified nextToken is invalid."
    message = await refused("GetLogEvents", members | {"nextToken": f"{ours[:-2]}77"})
    assert message == "invalid position in the log: 77"


class Unreadable(InlineLogFiles):
    async def read_back(self, log_id, *, position, limit, max_bytes):
        raise StoreFailed("input/output error")


@pytest.mark.parametrize("archive", [Unreadable()], indirect=True)
async def test_an_archive_that_cannot_be_read_is_unavailable(boto, backend):
    stream = await backend.runs("a")

    with pytest.raises(ClientError) as why:
        await get(boto, stream)

    assert why.value.response["Error"]["Code"] == "ServiceUnavailableException"
    assert why.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
