"""`batchq logs`: pages, filters, several logs at once, and lines that must not drive the terminal."""

from itertools import count

import pytest
from aiohttp import web

from batchq.cli import http_client, job_logs, log_merge
from batchq.cli.job_logs import printable
from tests.cli.responses import AT, explanation, overview
from tests.cli.servers import batchq, ended, job_id, row

JOB = job_id("8f2c51a7")
LOG = f"/v1/batchq/jobs/{JOB}/log"


def log(*messages, page=2, over=True):
    """A log of these lines, `page` lines a response. `over` is false until all were read."""

    def respond(query):
        lines = [{"at": 1_795_000_000_000 + number, "message": message} for number, message in enumerate(messages)]
        start = int(query["after"]) if "after" in query else max(0, len(lines) - int(query.get("tail", len(lines))))
        end = min(start + page, len(lines))
        return {"lines": lines[start:end], "next": str(end), "over": over and end == len(lines)}

    return respond


@pytest.fixture
def one(native):
    native.rows = [row()]
    native.responses[LOG] = log("one", "two", "three", "four", "five")
    return native


@pytest.mark.parametrize("follow", [[], ["-f"]])
async def test_all_pages_of_a_log_are_printed(one, capsys, follow):
    assert await batchq("logs", "8f2c51a7", *follow) == 0

    assert capsys.readouterr().out.splitlines() == ["one", "two", "three", "four", "five"]


async def test_an_unfinished_log_ends_without_follow(native, capsys):
    native.rows = [row()]
    native.responses[LOG] = log("one", over=False)

    assert await batchq("logs", JOB) == 0

    assert capsys.readouterr().out == "one\n"


async def test_a_log_that_may_be_incomplete_says_so(native, capsys):
    native.rows = [row()]
    whole = log("one", "two", "three", over=False)
    native.responses[LOG] = lambda query: whole(query) | ({} if "after" in query else {"incomplete": True})

    assert await batchq("logs", JOB) == 0

    shown = capsys.readouterr()
    assert shown.out == "one\ntwo\nthree\n"
    assert shown.err == (
        f"batchq: the log of {JOB} may be incomplete: the container engine has not delivered its last output in time\n"
    )


async def test_tail_and_attempt_are_sent_and_words_are_compared(one, capsys):
    assert await batchq("logs", JOB, "--tail", "3", "--attempt", "2", "--grep", "f") == 0

    assert capsys.readouterr().out.splitlines() == ["four", "five"]
    request = next(path for _, path, _ in one.requests if "/log" in path)
    assert {"attempt=2", "tail=3"} <= set(request.partition("?")[2].split("&"))


async def test_the_time_of_the_first_line_is_sent(one):
    assert await batchq("logs", JOB, "--since", "2026-11-23T18:30+00:00") == 0

    assert "since=1795458600000" in next(path for _, path, _ in one.requests if "/log" in path)


async def test_a_log_that_grows_while_it_is_read_ends_with_the_lines_that_it_had(one, capsys, monkeypatch):
    monkeypatch.setattr(job_logs, "PAGE_SIZE", 2)
    number = count()

    def respond(query):
        lines = [{"at": next(number), "message": "y"} for _ in range(2)]
        return {"lines": lines, "next": "x", "over": False}

    one.responses[LOG] = respond
    one.responses["/v1/batchq/overview"] = overview(at=4)

    assert await batchq("logs", JOB) == 0

    assert len(capsys.readouterr().out.splitlines()) == 6


async def test_a_server_that_restarts_is_waited_for(one, capsys, monkeypatch):
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.0)
    answers = one.responses[LOG]
    refused = iter([False, True, True, False, False])

    def respond(query):
        if next(refused):
            raise web.HTTPServiceUnavailable(text='{"message": "The server is starting."}')
        return answers(query)

    one.responses[LOG] = respond

    assert await batchq("logs", JOB, "-f") == 0

    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["one", "two", "three", "four", "five"]
    assert printed.err.startswith("batchq: The server is starting.")
    assert printed.err.count("\n") == 2


@pytest.mark.parametrize("follow", [[], ["-f"]])
async def test_lines_of_several_jobs_have_their_names(native, capsys, follow):
    sim = job_id("77ab01c9")
    native.rows = [row(), row("sim", jobId=sim)]
    native.responses |= {f"/v1/batchq/jobs/{job_id}/log": log(f"of {job_id[:8]}", "end") for job_id in (JOB, sim)}

    assert await batchq("logs", "train", "sim", *follow) == 0

    assert sorted(capsys.readouterr().out.splitlines()) == [
        "sim| end",
        "sim| of 77ab01c9",
        "train| end",
        "train| of 8f2c51a7",
    ]


def array_of(native, children, status="PENDING"):
    """An array with children that have a log of two lines, newest first. `children`: index, status and start."""
    native.rows = [row("sweep", status, arraySize=10)]
    for index, (child_status, start) in children.items():
        native.rows.append(child(native, index, child_status, start))
    native.responses["/v1/batchq/overview"] = overview()


def child(native, index, status, start):
    times = [{"at": AT + start + step, "message": f"line {step}"} for step in (0, 10)]
    native.responses[f"/v1/batchq/jobs/{JOB}:{index}/log"] = {"lines": times, "next": "2", "over": True}
    return row("sweep", status, jobId=f"{JOB}:{index}", parentId=JOB, arrayIndex=index, startedAt=AT + start)


async def test_lines_of_an_array_are_merged_by_time_and_those_of_ended_children_are_not_left_out(native, capsys):
    array_of(native, {7: ("RUNNING", 4), 3: ("SUCCEEDED", 1)})

    assert await batchq("logs", JOB) == 0

    assert capsys.readouterr().out.splitlines() == [
        "sweep:3| line 0",
        "sweep:7| line 0",
        "sweep:3| line 10",
        "sweep:7| line 10",
    ]


async def test_the_lines_of_each_child_have_a_colour(native, capsys):
    array_of(native, {7: ("RUNNING", 4), 3: ("SUCCEEDED", 1)})

    assert await batchq("logs", JOB, "--color", "always") == 0

    starts = {line.partition("|")[0] for line in capsys.readouterr().out.splitlines()}
    assert starts == {"\x1b[36msweep:3", "\x1b[35msweep:7"}


async def test_a_followed_array_prints_ended_children_and_those_that_start_later(native, capsys, monkeypatch):
    monkeypatch.setattr(log_merge, "LOOK_INTERVAL", 0.01)
    array_of(native, {3: ("SUCCEEDED", 1), 7: ("RUNNING", 4)})
    first = native.responses[f"/v1/batchq/jobs/{JOB}:7/log"]

    def end_and_start_another(_):
        native.rows = [row("sweep", "SUCCEEDED", arraySize=10), child(native, 9, "SUCCEEDED", 50)]
        return first

    native.responses[f"/v1/batchq/jobs/{JOB}:7/log"] = end_and_start_another

    assert await batchq("logs", JOB, "-f") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"sweep:{index}| line {step}" for index in (3, 7, 9) for step in (0, 10)]


async def test_a_followed_array_says_why_no_child_has_started_and_waits(native, capsys, monkeypatch):
    monkeypatch.setattr(log_merge, "LOOK_INTERVAL", 0.01)
    array_of(native, {})

    def start(_):
        native.rows = [row("sweep", "SUCCEEDED", arraySize=10), child(native, 0, "SUCCEEDED", 1)]
        return explanation("Next in queue default.", jobId=JOB)

    native.responses[f"/v1/batchq/jobs/{JOB}/why"] = start

    assert await batchq("logs", JOB, "-f") == 0

    printed = capsys.readouterr()
    assert "no job of the array has started: Next in queue default." in printed.err
    assert printed.out.splitlines() == ["sweep:0| line 0", "sweep:0| line 10"]


@pytest.mark.parametrize("follow", [[], ["-f"]])
async def test_of_a_job_that_does_not_run_the_reason_is_printed(native, capsys, follow):
    native.rows = [row("fit", "RUNNABLE", startedAt=None)]
    native.responses = {
        f"/v1/batchq/jobs/{JOB}/log": log(),
        f"/v1/batchq/jobs/{JOB}/why": explanation("Next in queue default.", jobId=JOB),
    }

    assert await batchq("logs", JOB, *follow) == 0

    assert capsys.readouterr().err.count("fit does not run: Next in queue default") == 1


@pytest.mark.parametrize(
    ("text", "color", "shown"),
    [
        ("plain", True, "plain"),
        ("\x1b[1;31mred\x1b[0m", True, "\x1b[1;31mred\x1b[0m\x1b[0m"),
        ("\x1b[31mred\x1b[0m", False, "red"),
        ("\x1b]0;title\x07\x1b[2J", True, r"\x1b]0;title\x07\x1b[2J"),
        ("10 %\r50 %\r100 %\r", True, "100 %"),
        ("a\tb", True, "a    b"),
        ("\u202eabc", True, r"\u202eabc"),
    ],
)
def test_a_terminal_gets_text_and_colours_only(text, color, shown):
    assert printable(text, color=color) == shown


@pytest.mark.parametrize(
    ("rows", "words", "end"),
    [
        (
            [row("sweep", "PENDING", arraySize=10)],
            [JOB],
            (1, "no job of the array has started: Next in queue default."),
        ),
        (
            [row(jobId=f"{JOB}:{index}", parentId=JOB) for index in range(21)],
            [f"{JOB}:0-20", "-f"],
            (2, "21 jobs are too many to follow; at most 20"),
        ),
    ],
    ids=["no running children", "too many jobs"],
)
async def test_a_selection_without_a_log_is_refused(native, capsys, rows, words, end):
    native.rows, (status, error) = rows, end
    native.responses[f"/v1/batchq/jobs/{JOB}/why"] = explanation("Next in queue default.", jobId=JOB)

    assert await ended("logs", *words) == status

    assert error in capsys.readouterr().err
