"""`batchq events`: JSON lines in a pipe, text on a terminal, filters, and readers that continue after a number."""

import json

import pytest

from batchq.cli import events
from tests.cli.servers import batchq, job_id, row

JOB = job_id("8f2c51a7")
AT = 1_795_000_000_000


def event(number, status="RUNNING", **more):
    return {
        "number": number,
        "at": AT,
        "jobId": JOB,
        "jobName": "train",
        "jobQueue": "default",
        "user": "ada",
        "account": "lab",
        "status": status,
    } | more


class Feed:
    """Answers with `page` events each; raises KeyboardInterrupt in the client after the last one if it waits."""

    def __init__(self, *stored, page=2, gap_below=0):
        self.stored = stored
        self.page = page
        self.gap_below = gap_below
        self.queries = []

    def __call__(self, query):
        self.queries.append(query)
        after = int(query.get("after", 0))
        found = [event for event in self.stored if event["number"] > after][: self.page]
        return {"events": found, "next": found[-1]["number"] if found else after, "gap": after < self.gap_below}


@pytest.fixture
def serve(native):
    def serve(feed):
        native.rows = [row()]
        native.responses["/v1/batchq/events"] = feed
        return feed

    return serve


async def test_a_pipe_gets_every_stored_event_as_one_json_line(serve, capsys):
    feed = serve(Feed(*(event(number) for number in range(1, 6))))

    assert await batchq("events") == 0

    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == list(feed.stored)
    assert [query.get("after") for query in feed.queries] == ["0", "2", "4", "5"]


async def test_events_after_a_number_are_printed(serve, capsys):
    serve(Feed(*(event(number) for number in range(1, 6))))

    assert await batchq("events", "--from", "3") == 0

    assert [json.loads(line)["number"] for line in capsys.readouterr().out.splitlines()] == [4, 5]


async def test_filters_are_sent(serve):
    feed = serve(Feed())

    assert await batchq("events", "train", "-q", "gpu,night", "-t", "finished", "-t", "R") == 0

    query = feed.queries[0]
    assert (query["jobs"], query["jobQueues"]) == (JOB, "gpu,night")
    assert query["jobStatuses"] == "SUCCEEDED,FAILED,STARTING,RUNNING"


async def test_a_terminal_gets_text_without_control_characters(serve, capsys, monkeypatch):
    monkeypatch.setattr(events, "is_terminal", lambda: True)
    serve(Feed(event(7, "FAILED", jobName="a\x1b[2Jb", attempt=2, statusReason="exit\n1")))

    assert await batchq("events") == 0

    line = capsys.readouterr().out
    assert line.startswith("7  2026-11-1")
    assert line.endswith("8f2c51a7  a\\x1b[2Jb  FAILED (attempt 2): exit\\n1\n")


async def test_missing_events_are_reported_to_a_reader_that_continues(serve, capsys):
    serve(Feed(event(8), gap_below=7))

    assert await batchq("events", "--from", "3") == 0
    assert "events before number 8 are missing" in capsys.readouterr().err
    assert await batchq("events") == 0
    assert capsys.readouterr().err == ""


async def test_following_begins_now_and_waits(serve, monkeypatch):
    feed = serve(Feed())
    pages = events._pages

    def first_three(args, url):
        found = pages(args, url)
        return [next(found) for _ in range(3)]

    monkeypatch.setattr(events, "_pages", first_three)

    assert await batchq("events", "-f") == 0
    assert [(query.get("after"), query["wait"]) for query in feed.queries] == [(None, "20"), ("0", "20"), ("0", "20")]


@pytest.mark.parametrize("words", [["--from", "x"], ["--from", "-1"], ["-t", "DONE"], ["-q", "a,,b"]])
async def test_an_invalid_flag_is_misused(words):
    with pytest.raises(SystemExit) as ended:
        await batchq("events", *words)

    assert ended.value.code == 2
