"""`batchq run` and `submit --wait`: output, messages and exit status for each end of a job; Ctrl-C on a terminal."""

import asyncio
import os
import signal
import sys

import pytest

from batchq.domain.status_reasons import TIMED_OUT
from tests.cli.responses import COST
from tests.cli.servers import JOB, attempt, batchq, state
from tests.cli.terminal_session import on_terminal

pytestmark = pytest.mark.process

CTRL_C = "\x03"
PROMPT = "[b]ack: "
WAITING = "RUNNABLE for"
CHILDREN = "; children: 1 SUCCEEDED, 1 FAILED, 1 not created"
ARRAY = {"arrayProperties": {"size": 3, "statusSummary": {"SUCCEEDED": 1, "FAILED": 1}}}


async def run(*words, command="run", **environment):
    """The exit status, stdout and stderr of the command in a process of its own."""
    process = await started(*words, command=command, **environment)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode().splitlines()


async def started(*words, command="run", under=(), **environment):
    """The command in a process of its own. `under`: the program that executes it, as nohup."""
    words = words or ("busybox", "--", "x")
    return await program(*under, sys.executable, "-m", "batchq", command, *words, **environment)


async def program(*words, **environment):
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *words, stdin=null, stdout=pipe, stderr=pipe, env=os.environ | environment
    )


EXITED = "Essential container in task exited"
ENDS = [
    (state("SUCCEEDED", attempt(0)), 0, "train SUCCEEDED after 3 s"),
    (state("FAILED", attempt(3)), 3, f"train FAILED after 3 s: exit code 3: {EXITED}"),
    (state("FAILED", attempt(1), attempt(137)), 137, f"train FAILED after 3 s: exit code 137: {EXITED}"),
    (state("FAILED", attempt(143, TIMED_OUT)), 124, f"train FAILED after 3 s: exit code 143: {TIMED_OUT}"),
    (
        state("FAILED", attempt(143, "too hot"), isTerminated=True),
        125,
        "train FAILED after 3 s: exit code 143: too hot",
    ),
    (state("FAILED", attempt(5, "too hot"), isCancelled=True), 5, "train FAILED after 3 s: exit code 5: too hot"),
    (state("FAILED", attempt(None, "Task failed to start")), 125, "train FAILED after 3 s: Task failed to start"),
    (state("FAILED", statusReason="Dependent Job failed"), 125, "train FAILED: Dependent Job failed"),
    (state("FAILED"), 125, "train FAILED"),
    (state("SUCCEEDED", **ARRAY), 0, f"train SUCCEEDED{CHILDREN}"),
    (state("FAILED", **ARRAY), 1, f"train FAILED{CHILDREN}"),
]


async def test_a_job_that_no_environment_can_hold_is_run_with_a_warning(job_server):
    job_server.warning = "Cannot start: requires 9,000 GiB of memory, and the largest environment has 8."

    _, _, err = await run()

    assert f"batchq: warning: {job_server.warning}" in err


@pytest.mark.parametrize(("end", "status", "text"), ENDS, ids=lambda case: str(case)[:20])
async def test_the_exit_status_is_that_of_the_job(job_server, end, status, text):
    job_server.states = [end]

    assert await batchq_run(job_server) == (status, text)


async def batchq_run(job_server):
    """The status and the last line about the job."""
    status, _, err = await run()
    about = [text.removeprefix("batchq: ") for text in err if not text.startswith("batchq: again")]
    return status, about[-1]


async def test_the_end_shows_what_the_job_used_and_cost(job_server):
    job_server.use = {"sampledAt": 2000, "cpuSeconds": 3.4, "peakMemoryBytes": 400 * 2**20}
    job_server.cost = COST

    end = "train SUCCEEDED after 3 s; 1.7 of 2 vCPUs; peak 400 of 512 MiB; 3.42 EUR"
    assert await batchq_run(job_server) == (0, end)


@pytest.mark.smoke
async def test_the_output_is_printed_from_the_beginning_to_the_end(job_server):
    lines = [f"epoch {number}" for number in range(5)]
    job_server.states = [state("RUNNABLE"), state("STARTING"), state("RUNNING"), state("SUCCEEDED", attempt())]
    job_server.output = {1: lines}

    status, out, err = await run("busybox", "--name", "train", "--", "python", "train.py")

    assert (status, out.splitlines()) == (0, lines)
    assert err[0] == f"batchq: train {JOB[:8]} in queue default"
    assert err[-1] == "batchq: train SUCCEEDED after 3 s"
    assert job_server.submitted[0]["containerOverrides"]["command"] == ["python", "train.py"]


async def test_the_output_of_each_attempt_is_printed(job_server):
    job_server.states = [
        state("RUNNING"),
        state("RUNNABLE", attempt(1, "Host EC2 terminated.")),
        state("RUNNING", attempt(1, "Host EC2 terminated.")),
        state("SUCCEEDED", attempt(1, "Host EC2 terminated."), attempt(0)),
    ]
    job_server.output = {1: ["one"], 2: ["two", "three", "four"]}

    status, out, err = await run()

    assert (status, out.splitlines()) == (0, ["one", "two", "three", "four"])
    assert "batchq: attempt 1 has ended (Host EC2 terminated.); attempt 2 follows" in err


async def test_a_job_without_a_log_of_its_own_is_followed_without_output(job_server):
    job_server.states = [state("RUNNING"), state("FAILED", attempt(4))]
    job_server.log_refusal = "Job X has several containers: name one of a, b."

    status, out, err = await run()

    assert (status, out) == (4, "")
    assert f"batchq: the output is not shown: {job_server.log_refusal}" in err


async def test_the_output_of_a_multi_node_job_is_that_of_its_main_node(job_server):
    job_server.states = [state("SUCCEEDED", attempt(), nodeProperties={"numNodes": 3, "mainNode": 2})]

    await run()

    assert job_server.log_requests == [f"{JOB}#2"]


async def test_what_the_job_waits_for_is_printed(job_server):
    job_server.states = [state("RUNNABLE"), state("SUCCEEDED", attempt())]
    job_server.sentence = "Next in queue default: needs 4 vCPUs, 1.5 of 8 are free."

    _, _, err = await run()

    assert err[1] == f"batchq: RUNNABLE for 0 s: {job_server.sentence}"


async def test_the_explanation_of_a_failure_precedes_its_reason(job_server):
    job_server.states = [state("FAILED", attempt(137))]
    job_server.sentence = "Killed for memory: 512 MiB requested, 512 used. Request more."

    _, _, err = await run()

    assert err[-2:] == [
        f"batchq: train FAILED after 3 s: {job_server.sentence}",
        f"batchq: again: batchq rerun {JOB[:8]}",
    ]


async def test_a_server_that_goes_away_is_waited_for(job_server):
    job_server.states = [state("RUNNING"), state("SUCCEEDED", attempt())]
    job_server.output = {1: ["one"]}
    job_server.away = 2

    status, out, err = await run()

    assert (status, out) == (0, "one\n")
    assert err[1:3] == ["batchq: The server is starting.; waiting for the server", "batchq: the server responds again"]


async def test_a_job_that_is_removed_meanwhile_has_no_exit_code(job_server):
    job_server.states = [state("RUNNABLE"), None]

    status, _, err = await run()

    assert (status, err[-1]) == (125, f"batchq: job {JOB} does not exist any more")


async def test_without_a_server_nothing_is_submitted():
    status, out, err = await run(BATCHQ_URL="http://127.0.0.1:1")

    assert (status, out, len(err)) == (3, "", 1)


async def test_submit_with_wait_prints_the_id_and_no_output(job_server):
    job_server.states = [state("RUNNING"), state("FAILED", attempt(3))]
    job_server.output = {1: ["one"]}

    status, out, err = await run("busybox", "--wait", command="submit")

    assert (status, out) == (3, f"{JOB}\n")
    assert err[-2] == "batchq: train FAILED after 3 s: exit code 3: Essential container in task exited"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("stops", [False, True], ids=["leaves", "stops"])
async def test_a_signal_leaves_the_job_or_terminates_it(job_server, number, stops):
    job_server.states = [state("RUNNABLE")]
    process = await started(*(["--stop-on-exit"] if stops else []), "busybox")
    await job_server.is_followed.wait()

    process.send_signal(number)

    _, err = await process.communicate()
    last = f"{JOB}  stopping" if stops else f"the job goes on without this command: batchq logs -f {JOB[:8]}"
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == f"batchq: {last}"
    assert job_server.stops == ([("terminate", [JOB])] if stops else [])


async def test_a_second_signal_does_not_interrupt_the_termination(job_server):
    job_server.states = [state("RUNNABLE")]
    job_server.stop_may_end.clear()
    process = await started("--stop-on-exit", "busybox")
    await job_server.is_followed.wait()

    process.send_signal(signal.SIGHUP)  # of the terminal
    await job_server.stop_began.wait()
    process.send_signal(signal.SIGHUP)  # of the shell
    await asyncio.sleep(0.1)
    job_server.stop_may_end.set()

    _, err = await process.communicate()
    assert (process.returncode, err.decode().splitlines()[-1]) == (130, f"batchq: {JOB}  stopping")


LOSES_A_SIGNAL = """
import os, signal, sys
from batchq.cli import attach, main

class Finalized:
    def __del__(self):
        if not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.{name})

def fetch_explanation(*_, fetch=attach.fetch_explanation):
    Finalized()
    return fetch(*_)

sent = []
attach.fetch_explanation = fetch_explanation
sys.exit(main.main(["run", "busybox", "--", "x"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
async def test_a_signal_that_arrives_while_an_object_is_finalized_is_not_lost(job_server, name):
    job_server.states = [state("RUNNABLE")]
    process = await program(sys.executable, "-c", LOSES_A_SIGNAL.format(name=name))

    _, err = await process.communicate()

    assert "Exception ignored in" in err.decode()
    assert process.returncode == 130
    assert err.decode().splitlines()[-1].startswith("batchq: the job goes on without this command")


async def test_under_nohup_the_command_follows_its_job_after_the_terminal_has_closed(job_server):
    job_server.states = [state("RUNNABLE")]
    process = await started(under=["nohup"])
    await job_server.is_followed.wait()

    process.send_signal(signal.SIGHUP)
    job_server.states = [state("SUCCEEDED", attempt())]

    _, err = await process.communicate()
    assert (process.returncode, err.decode().splitlines()[-1]) == (0, "batchq: train SUCCEEDED after 3 s")


async def test_a_refused_request_has_no_exit_code(job_server, capsys):
    assert await batchq("run", "busybox", "-q", "none") == 125

    assert capsys.readouterr().err == "batchq: JobQueue none not found.\n"


@pytest.mark.parametrize("command", ["run", "submit"])
async def test_ctrl_c_during_the_submission_says_that_the_job_may_exist(job_server, command):
    job_server.is_mute = True
    process = await started("busybox", "--name", "train-1", command=command)
    await job_server.requested.wait()

    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()

    assert (process.returncode, out) == (130, b"")
    assert err.decode().splitlines() == [
        "batchq: the server may have accepted the job: batchq list -n train-1 --since 5m shows it",
        "batchq: interrupted",
    ]


# ------------------------------------------------------------------------------------------------------ on a terminal
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
    job_server.output = {1: ["one"]}
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
    job_server.output = {1: ["one"]}

    seen = await play()

    assert WAITING in seen["output"]
    *first, output, last = seen["screen"]
    page = f"{os.environ['BATCHQ_URL']}/ui/jobs/{JOB}"
    assert "".join(first) == f"batchq: busybox 8f2c51a7 in queue default  {page}"
    assert (output, last) == ("one", "batchq: train SUCCEEDED after 3 s")


async def test_output_keeps_its_colours_and_no_other_control_sequence(job_server):
    job_server.states = [state("SUCCEEDED", attempt())]
    job_server.output = {1: ["\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 tab\tend"]}

    seen = await play()

    assert "\x1b[31mred\x1b[0m \\x1b[2J\\x1b]0;title\\x07 tab    end\x1b[0m\r\n" in seen["output"]
