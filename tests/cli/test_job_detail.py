"""`batchq show`, `why` and `history`: what they print of the responses."""

import json
import re

from tests.cli.responses import attempt, details, explanation, stop_order
from tests.cli.servers import batchq, job_id, row

JOB = job_id("8f2c51a7")
PATH = f"/v1/batchq/jobs/{JOB}"
RAN = {"startedAt": 1_795_000_002_000, "stoppedAt": 1_795_000_719_000, "exitCode": 137}
DETAIL = details(
    row(status="FAILED", statusReason="OutOfMemoryError: Container killed due to memory usage", **RAN),
    command=["python", "my train.py"],
    environment=[{"name": "A", "value": "1"}],
    dependsOn=[{"jobId": job_id("91aa0000"), "type": "N_TO_N"}],
    dependents=[{"jobId": job_id("77ab01c9"), "jobName": "plot", "status": "PENDING"}],
    stopOrders=[stop_order("CANCEL", user="cora", signalledAt=1_795_000_002_000)],
    attempts=[attempt(reason="OOM", **RAN)],
)


async def test_show_prints_a_detail_a_line_into_a_pipe(native, capsys):
    native.responses[PATH] = {"job": DETAIL}

    assert await batchq("show", JOB) == 0

    lines = [line.split("\t", 1) for line in capsys.readouterr().out.splitlines()]
    fields = dict(lines)
    assert [label for label, _ in lines][:3] == ["name", "state", "why"]
    assert fields["why"] == "exit code 137: OutOfMemoryError: Container killed due to memory usage"
    assert fields["command"] == "python 'my train.py'"
    assert fields["requires"] == "2 vCPU, 512 MiB memory"
    assert fields["environment"] == "A=1"
    assert fields["took"] == "11 min 57 s"
    assert fields["waits for"] == f"{job_id('91aa0000')} (N_TO_N)"
    assert fields["waited for by"] == f"{job_id('77ab01c9')} (plot, PENDING)"
    assert re.fullmatch(r"cancelled by cora at \d\d:\d\d, 'too hot'; signalled at \S+", fields["stop order"])
    assert fields["attempt"].split("\t")[:2] == ["1", "137"]


USE = {
    "sampledAt": RAN["stoppedAt"] - 600,
    "cpuSeconds": 540.0,
    "peakMemoryBytes": 512 * 2**20,
    "workingSetBytes": 498 * 2**20,
    "readBytes": 2**30,
    "writtenBytes": 3 * 2**20,
}


async def test_show_prints_what_the_last_attempt_used(native, capsys):
    attempts = [attempt(1, startedAt=1, stoppedAt=2), attempt(2, use=USE, **RAN), attempt(3)]
    native.responses[PATH] = {"job": DETAIL | {"use": USE, "attempts": attempts}}

    assert await batchq("show", JOB) == 0

    lines = capsys.readouterr().out.splitlines()
    fields = dict(line.split("\t", 1) for line in lines)
    assert fields["used"] == (
        "9 min of CPU time; 0.75 of 2 vCPUs; peak 512 of 512 MiB; working set 498 MiB; read 1,024 MiB; "
        "written 3.0 MiB; as of 0.6 s before the end"
    )
    shown = [line.split("\t")[5:7] for line in lines if line.startswith("attempt\t") and line.count("\t") > 2]
    assert shown == [["not measured", "not measured"], ["9 min", "512 MiB"], ["", ""]]


async def test_show_says_that_nothing_was_measured(native, capsys):
    native.responses[PATH] = {"job": DETAIL}

    assert await batchq("show", JOB) == 0

    assert "used\tnot measured\n" in capsys.readouterr().out


async def test_show_has_the_explanation_of_the_server(native, capsys):
    native.responses[PATH] = {"job": DETAIL}
    native.responses[f"{PATH}/why"] = explanation("Killed for memory.", "OUT_OF_MEMORY", jobId=JOB)

    assert await batchq("show", JOB) == 0

    assert "why\tKilled for memory.\n" in capsys.readouterr().out


async def test_show_escapes_control_characters(native, capsys):
    variable = {"name": "\n", "value": "\x07"}
    native.responses[PATH] = {"job": DETAIL | {"jobName": "a\x1b[2J", "command": ["\u202e"], "environment": [variable]}}

    assert await batchq("show", JOB) == 0

    assert all(line.isprintable() for line in capsys.readouterr().out.replace("\t", "").splitlines())


async def test_show_as_json_is_the_response(native, capsys):
    native.responses[PATH] = {"job": DETAIL}

    assert await batchq("show", JOB, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"job": DETAIL}

    assert await batchq("show", JOB, "--query", "job.attempts[0].exitCode") == 0
    assert capsys.readouterr().out == "137\n"


async def test_a_job_that_does_not_exist_is_status_1(native, capsys):
    assert await batchq("show", JOB) == 1

    assert capsys.readouterr().err == f"batchq: {PATH} does not exist.\n"


async def test_why_prints_the_sentence(native, capsys):
    native.rows = [row()]
    native.responses[f"{PATH}/why"] = explanation("Next in queue default.", jobId=JOB)

    assert await batchq("why", "train") == 0

    assert capsys.readouterr().out == "Next in queue default.\n"


async def test_history_prints_each_state_with_its_time(native, capsys):
    cancelled = stop_order("CANCEL", user="cora", progress="ORDERED")
    native.responses[f"{PATH}/history"] = {
        "jobId": JOB,
        "history": [
            {"at": 1_795_000_000_000, "status": "SUBMITTED"},
            {"at": 1_795_000_060_000, "status": "SUBMITTED", "stopOrder": cancelled},
            {"at": 1_795_000_090_000, "status": "FAILED", "reason": "too hot", "attempt": 1},
        ],
    }

    assert await batchq("history", JOB) == 0

    lines = [line.split("\t")[1:] for line in capsys.readouterr().out.splitlines()]
    assert lines.pop(1)[-1].startswith("cancelled by cora at ")
    assert lines == [["SUBMITTED", "1 min 30 s", "", ""], ["FAILED", "", "1", "too hot"]]


async def test_history_of_a_child_that_is_not_created_yet_is_a_notice(native, capsys):
    native.responses[f"{PATH}:7/history"] = {"jobId": f"{JOB}:7", "history": []}

    assert await batchq("history", f"{JOB}:7") == 0

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"batchq: job {JOB}:7 has no history yet: its array has not created it\n")


async def test_history_prints_each_order_to_stop_with_its_author_and_its_signals(native, capsys):
    order = {"kind": "TERMINATE", "user": "cora", "at": 1_795_000_000_000, "reason": "too hot"}
    entry = {"at": 1_795_000_000_000, "status": "RUNNING", "attempt": 1}
    native.responses[f"{PATH}/history"] = {
        "jobId": JOB,
        "history": [
            entry | {"stopOrder": order | {"progress": progress}} for progress in ("ORDERED", "SIGNALLED", "KILLED")
        ],
    }

    assert await batchq("history", JOB) == 0

    text = [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()]
    assert text[0].startswith("terminated by cora at ")
    assert text[1:] == ["the stop signal was delivered", "SIGKILL was sent"]
