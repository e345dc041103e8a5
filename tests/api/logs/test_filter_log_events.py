"""FilterLogEvents, by boto3, and as `aws logs tail` uses it."""

from collections import defaultdict
from itertools import pairwise

import pytest

from batchq.logs.service import GROUP
from tests.api.logs.conftest import FULL_NAME, STARTED


def messages(page):
    return [event["message"] for event in page["events"]]


async def everything(boto, **members):
    pages = await boto.pages("filter_log_events", logGroupName=GROUP, **members)
    return [event for page in pages for event in page["events"]]


@pytest.fixture
async def two(backend):
    """Streams that have written at the same times."""
    return [await backend.runs(*"abcd", name="x/default/0"), await backend.runs(*"efgh", name="y/default/0")]


async def test_an_event_has_its_stream_and_an_id(boto, backend):
    assert (await boto.filter_log_events(logGroupName=GROUP))["events"] == []
    stream = await backend.runs("a")

    page = await boto.filter_log_events(logGroupName=GROUP)

    (event,) = page["events"]
    event_id = event.pop("eventId")
    assert event == {"logStreamName": stream.name, "timestamp": STARTED, "message": "a", "ingestionTime": STARTED}
    assert (len(event_id), event_id.isdecimal()) == (56, True)
    assert (page["searchedLogStreams"], "nextToken" in page) == ([], False)


@pytest.mark.parametrize("limit", [1, 3, 8, 9])
async def test_pages_have_each_event_of_all_streams_once_sorted_by_time(boto, two, limit):
    events = await everything(boto, PaginationConfig={"PageSize": limit})

    assert sorted(event["message"] for event in events) == [*"abcdefgh"]
    assert all(one["timestamp"] <= next_["timestamp"] for one, next_ in pairwise(events))
    assert len({event["eventId"] for event in events}) == 8


async def test_an_id_is_the_same_however_the_event_is_found(boto, two):
    by_pages = await everything(boto, PaginationConfig={"PageSize": 1})
    at_once = await everything(boto)
    by_name = await everything(boto, logStreamNames=[two[1].name], startTime=STARTED + 2)

    ids = {event["message"]: event["eventId"] for event in at_once}
    assert {event["message"]: event["eventId"] for event in by_pages} == ids
    assert {event["message"]: event["eventId"] for event in by_name} == {name: ids[name] for name in "gh"}


async def test_streams_are_selected_by_name_or_prefix(boto, two):
    by_name = await everything(boto, logStreamNames=[two[0].name] * 2)
    by_prefix = await everything(boto, logStreamNamePrefix="y/")

    assert [[event["message"] for event in found] for found in (by_name, by_prefix)] == [[*"abcd"], [*"efgh"]]


@pytest.mark.parametrize("limit", [1, 100])
async def test_events_are_selected_by_time_and_pattern(boto, two, limit):
    query = {"logGroupIdentifier": FULL_NAME, "startTime": STARTED + 1, "endTime": STARTED + 3}
    pages = await boto.pages("filter_log_events", **query, PaginationConfig={"PageSize": limit})
    matching = await boto.filter_log_events(**query, filterPattern="?b ?c ?d ?g")

    assert sorted(message for page in pages for message in messages(page)) == [*"bcfg"]
    assert sorted(messages(matching)) == ["b", "c", "g"]


REFUSED = [
    ({"filterPattern": '{ $.level = "ERROR" }'}, "JSON are not supported"),
    ({"logStreamNames": ["x"], "logStreamNamePrefix": "x"}, "are mutually exclusive"),
    *(({"nextToken": text}, "") for text in ("a", "AAAA", "[]", "\u2603", "x" * 2000)),
]


@pytest.mark.parametrize(("members", "text"), REFUSED, ids=lambda case: str(case)[:60])
async def test_invalid_queries_are_refused(refused, two, members, text):
    assert text in await refused("FilterLogEvents", {"logGroupName": GROUP} | members)


async def test_an_unknown_stream_and_a_token_of_another_query_are_refused(boto, two, refused):
    token = (await boto.filter_log_events(logGroupName=GROUP, limit=1))["nextToken"]
    unknown = {"logGroupName": GROUP, "logStreamNames": [two[0].name, "unknown"]}

    message = await refused("FilterLogEvents", unknown, code="ResourceNotFoundException")
    for changed in ({"filterPattern": "a"}, {"startTime": 5}, {"logStreamNamePrefix": "x"}):
        await refused("FilterLogEvents", {"logGroupName": GROUP, "nextToken": token} | changed)

    assert message == "The specified log stream does not exist."


async def test_aws_logs_tail_prints_each_line_once(boto, backend, two):
    tail = Tail(boto)
    first = await tail.poll()
    nothing = await tail.poll()
    backend.writes(two[0], "late", after=3)
    backend.writes(two[1], "later", after=5000)

    followed = await tail.poll()

    assert (sorted(first), nothing, followed) == ([*"abcdefgh"], [], ["late", "later"])


class Tail:
    """The loop of `aws logs tail --follow`: from the newest time on, without the printed events of that time."""

    def __init__(self, boto):
        self._boto = boto
        self._query = {"logGroupName": GROUP, "interleaved": True, "limit": 3}
        self._printed = defaultdict(set)

    async def poll(self):
        """The new messages."""
        new = []
        while True:
            page = await self._boto.filter_log_events(**self._query)
            for event in page["events"]:
                if event["eventId"] not in self._printed[event["timestamp"]]:
                    self._printed[event["timestamp"]].add(event["eventId"])
                    new.append(event["message"])
            if "nextToken" not in page:
                break
            self._query["nextToken"] = page["nextToken"]
        newest = max(self._printed)
        self._printed = defaultdict(set, {newest: self._printed[newest]})
        self._query.pop("nextToken", None)
        self._query["startTime"] = newest
        return new
