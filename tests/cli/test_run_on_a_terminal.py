"""`batchq run` on a terminal: each answer to Ctrl-C, the line while the job waits, and control sequences of jobs."""

import os

import pytest

from tests.cli.job_server import JOB, attempt, state
from tests.cli.terminal_session import on_terminal

pytestmark = pytest.mark.process

CTRL_C = "\x03"
PROMPT = "[b]ack: "
WAITING = "RUNNABLE for"


async def play(*steps):
    return await on_terminal("run", "busybox", "--", "x", steps=steps)


async def test_ctrl_c_and_enter_leave_the_job_running(job_server):
    job_server.states = [state("RUNNABLE")]

    seen = await play((WAITING, CTRL_C), (PROMPT, "\r"))

    assert seen["status"] == 130
    assert job_server.stops == []
    assert seen["screen"][-7:] == [
        "train is RUNNABLE.",
        "  Enter  leave: nothing changes; batchq logs -f 8f2c51a7 follows it again",
        "  c      cancel: FAILED at once; it never starts",
        "  t      terminate: the same",
        "  b      back: follow it again",
        "[Enter] leave  [c]ancel  [t]erminate  [b]ack:",
        "batchq: the job goes on without this command: batchq logs -f 8f2c51a7",
    ]


async def test_a_second_ctrl_c_leaves_the_job_running(job_server):
    job_server.states = [state("RUNNABLE")]

    seen = await play((WAITING, CTRL_C), (PROMPT, CTRL_C))

    assert (seen["status"], job_server.stops) == (130, [])


@pytest.mark.parametrize(
    ("answer", "verb", "effect", "report"),
    [
        ("c", "cancel", "cancel: its attempt runs on; if it fails it is not retried", "running on, not retried"),
        ("t", "terminate", "terminate: SIGTERM now, SIGKILL after its grace period;", "stopping"),
    ],
)
async def test_the_answer_stops_the_job_and_follows_it_to_its_end(job_server, answer, verb, effect, report):
    job_server.states = [state("RUNNING")]
    job_server.lines = {1: ["one"]}
    job_server.stopped = state("FAILED", attempt(143, "stopped from batchq run"), isTerminated=True)

    seen = await play(("one", CTRL_C), (PROMPT, f"{answer}\r"))

    assert seen["status"] == 125
    assert job_server.stops == [(verb, [JOB])]
    assert effect in " ".join(seen["screen"])
    assert f"batchq: {JOB}  {report}" in seen["screen"]
    assert seen["screen"][-2] == "batchq: train FAILED after 3 s: exit code 143: stopped from batchq run"


async def test_back_follows_the_job_again(job_server):
    job_server.states = [state("RUNNABLE")]

    seen = await play((WAITING, CTRL_C), (PROMPT, "what\r"), (PROMPT, "b\r"), (WAITING, CTRL_C), (PROMPT, "\r"))

    assert (seen["status"], job_server.stops) == (130, [])


async def test_the_line_of_a_waiting_job_is_replaced_by_its_output(job_server):
    job_server.states = [state("RUNNABLE"), state("RUNNING"), state("SUCCEEDED", attempt())]
    job_server.sentence = "Next in queue default: " + "very " * 30 + "busy."
    job_server.lines = {1: ["one"]}

    seen = await play()

    assert WAITING in seen["output"]
    *first, output, last = seen["screen"]
    page = f"{os.environ['BATCHQ_URL']}/ui/jobs/{JOB}"
    assert "".join(first) == f"batchq: busybox 8f2c51a7 in queue default  {page}"
    assert (output, last) == ("one", "batchq: train SUCCEEDED after 3 s")


async def test_output_keeps_its_colours_and_no_other_control_sequence(job_server):
    job_server.states = [state("SUCCEEDED", attempt())]
    job_server.lines = {1: ["\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 tab\tend"]}

    seen = await play()

    assert "\x1b[31mred\x1b[0m \\x1b[2J\\x1b]0;title\\x07 tab    end\x1b[0m\r\n" in seen["output"]
