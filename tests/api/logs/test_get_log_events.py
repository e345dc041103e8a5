"""GetLogEvents by boto3: loops over pages end, and return each line once."""

import pytest
from botocore.exceptions import ClientError

from batchq.errors import StoreFailed
from batchq.logs.service import GROUP
from tests.api.logs.conftest import ACCOUNT, FULL_NAME, STARTED
from tests.support.inline import InlineLogFiles


async def get(boto, stream, **members):
    return await boto.get_log_events(logGroupName=GROUP, logStreamName=stream.name, **members)


def messages(page):
    return [event["message"] for event in page["events"]]


async def all_forwards(boto, stream, **members):
    """Read as Airflow does: from the head, until the token repeats."""
    found, token = [], None
    while True:
        more = {} if token is None else {"nextToken": token}
        page = await get(boto, stream, startFromHead=True, **members, **more)
        found += messages(page)
        if page["nextForwardToken"] == token:
            return found
        token = page["nextForwardToken"]


async def all_backwards(boto, stream, **members):
    found, token = [], None
    while True:
        more = {} if token is None else {"nextToken": token}
        page = await get(boto, stream, **members, **more)
        found = messages(page) + found
        if page["nextBackwardToken"] == token:
            return found
        token = page["nextBackwardToken"]


async def test_an_event_has_a_message_and_two_times_in_milliseconds(boto, backend):
    stream = await backend.runs("a")

    page = await get(boto, stream)

    assert page["events"] == [{"timestamp": STARTED, "message": "a", "ingestionTime": STARTED}]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_the_forward_loop_ends_and_returns_each_line_once(boto, backend, limit):
    stream = await backend.runs(*"abcdefg")

    assert await all_forwards(boto, stream, limit=limit) == [*"abcdefg"]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
async def test_the_backward_loop_ends_and_returns_each_line_once(boto, backend, limit):
    stream = await backend.runs(*"abcdefg")

    assert await all_backwards(boto, stream, limit=limit) == [*"abcdefg"]


async def test_both_loops_end_on_an_empty_stream(boto, backend):
    stream = await backend.runs()

    assert await all_forwards(boto, stream) == await all_backwards(boto, stream) == []


async def test_by_default_the_last_events_are_returned_oldest_first(boto, backend):
    stream = await backend.runs(*"abcde")

    assert messages(await get(boto, stream, limit=2)) == ["d", "e"]


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

    assert await all_forwards(boto, stream, limit=1, **span) == await all_backwards(boto, stream, **span) == ["b", "c"]


async def test_a_page_has_at_most_a_mebibyte(boto, backend):
    stream = await backend.runs(*["x" * 200_000] * 12)

    assert len(messages(await get(boto, stream))) == 5
    assert len(await all_backwards(boto, stream)) == 12


async def test_log_text_is_returned_unchanged(boto, backend):
    stream = await backend.runs("\0\x1b[1m\t", "É☃𝄞\u2028", '{"a": "b\\n"}', "\ufffd")

    assert await all_forwards(boto, stream) == ["\0\x1b[1m\t", "É☃𝄞\u2028", '{"a": "b\\n"}', "\ufffd"]


@pytest.mark.parametrize(
    "group", [GROUP, FULL_NAME, f"{FULL_NAME}:*", f"arn:aws:logs:ap-south-1:{ACCOUNT}:log-group:{GROUP}"]
)
async def test_the_group_can_be_named_by_its_identifier(boto, backend, group):
    stream = await backend.runs("a")

    assert messages(await boto.get_log_events(logGroupIdentifier=group, logStreamName=stream.name)) == ["a"]


async def test_an_unknown_stream_gets_the_error_of_aws(boto):
    with pytest.raises(boto.exceptions.ResourceNotFoundException) as why:
        await boto.get_log_events(logGroupName=GROUP, logStreamName="a/default/b")

    assert why.value.response["Error"]["Message"] == "The specified log stream does not exist."


@pytest.mark.parametrize(
    "group",
    [
        {"logGroupName": "/aws/batch/other"},
        {"logGroupName": FULL_NAME[:512]},
        {"logGroupIdentifier": "/aws/batch/other"},
        {"logGroupIdentifier": f"arn:aws:logs:us-east-1:999999999999:log-group:{GROUP}"},
        {"logGroupIdentifier": f"{FULL_NAME}:log-stream:x"},
    ],
)
async def test_an_unknown_group_gets_the_error_of_aws(raw, backend, group):
    stream = await backend.runs("a")

    status, headers, answer = await raw.post("GetLogEvents", {**group, "logStreamName": stream.name})

    assert (status, headers["x-amzn-ErrorType"]) == (400, "ResourceNotFoundException")
    assert answer == {"__type": "ResourceNotFoundException", "message": "The specified log group does not exist."}


@pytest.mark.parametrize("group", [{}, {"logGroupName": GROUP, "logGroupIdentifier": GROUP}])
async def test_exactly_one_group_must_be_named(raw, backend, group):
    stream = await backend.runs("a")

    status, headers, _ = await raw.post("GetLogEvents", {**group, "logStreamName": stream.name})

    assert (status, headers["x-amzn-ErrorType"]) == (400, "InvalidParameterException")


# -------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    "token",
    [
        "f",
        "f/",
        "x/" + "0" * 56,
        "f/" + "0" * 55,
        "f/" + "9" * 56,
        "b/" + "0" * 56,
        "f/" + "\u0660" * 56,
        "a" * 2000,
        " ",
        "🦆",
    ],
)
async def test_a_forged_token_is_refused(boto, backend, token):
    stream = await backend.runs("a")

    with pytest.raises(boto.exceptions.InvalidParameterException):
        await get(boto, stream, nextToken=token)


async def test_a_token_with_an_invalid_position_is_refused(boto, backend):
    stream = await backend.runs("a")
    token = (await get(boto, stream))["nextForwardToken"]

    with pytest.raises(boto.exceptions.InvalidParameterException):
        await get(boto, stream, nextToken=f"{token[:-2]}77")


async def test_a_token_of_another_stream_is_refused(boto, backend):
    stream, other = await backend.runs("a"), await backend.runs("b")
    token = (await get(boto, other))["nextForwardToken"]

    with pytest.raises(boto.exceptions.InvalidParameterException):
        await get(boto, stream, nextToken=token)


async def test_tokens_have_the_format_of_aws(boto, backend):
    stream = await backend.runs("a")

    page = await get(boto, stream)

    tokens = [page["nextForwardToken"], page["nextBackwardToken"]]
    assert [token[:2] for token in tokens] == ["f/", "b/"]
    assert all(len(token) == 58 and token[2:].isdecimal() for token in tokens)


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
