"""Groups in the command line, against a whole server with simulated containers."""

import asyncio
import io
import json
import re

import pytest

from batchq.cli import groups, job_holds, log_merge
from batchq.cli.main import main
from batchq.cli.progress import bar, summary_line
from batchq.cli.sweep import read_axes
from batchq.domain.progress import JobProgress
from batchq.errors import UsageError
from batchq.services.sweep_requests import expand
from tests.console.conftest import console_of

FAST = ("-e", 'BATCHQ_SIMULATED=[{"seconds":0}]')
FAILS = ("-e", 'BATCHQ_SIMULATED=[{"seconds":0,"exit_code":3}]')
LASTS = ("-e", 'BATCHQ_SIMULATED=[{"seconds":null,"on_term":0}]')


@pytest.fixture
async def console(tmp_path, monkeypatch):
    async with console_of(tmp_path / "data") as browser:
        monkeypatch.setenv("BATCHQ_URL", browser.url)
        monkeypatch.setenv("BATCHQ_CONFIG", str(tmp_path / "none"))
        monkeypatch.chdir(tmp_path)
        yield browser


@pytest.fixture
def batchq(console, capsys):
    """Run a command; returns its exit status, and the lines of stdout and of stderr."""

    async def batchq(*words):
        capsys.readouterr()
        status = await asyncio.to_thread(main, words)
        printed = capsys.readouterr()
        return status, printed.out.splitlines(), printed.err.splitlines()

    return batchq


async def test_a_grid_is_one_group_that_is_waited_for(console, batchq):
    words = ("--name", "fit", *FAST, "--each", "lr=0.1,0.01", "--each", "seed=1..3", "--wait", "--", "fit", "{lr}")

    status, ids, printed = await batchq("submit", "busybox", *words)

    assert status == 0
    assert len(ids) == 6
    assert printed[-1] == "batchq: fit: 6 SUCCEEDED, 0 FAILED"
    last = await console.describe(ids[-1])
    assert last["parameters"] == {"lr": "0.01", "seed": "3"}
    assert last["container"]["command"] == ["fit", "0.01"]
    variables = {item["name"]: item["value"] for item in last["container"]["environment"]}
    assert (variables["lr"], variables["seed"]) == ("0.01", "3")


async def test_why_escapes_the_reasons_of_a_group(batchq, console):
    hostile, escaped = "\x1b]52;c;AAAA\x07\u202e", r"\x1b]52;c;AAAA\x07\u202e"
    flags = ("--name", "fit", *LASTS, "--each", "seed=1..2", "--max-running", "1")
    _, ids, _ = await batchq("submit", "busybox", *flags)
    (pending,) = [job for job in ids if (await console.describe(job))["status"] == "PENDING"]
    (placed,) = set(ids) - {pending}
    await batchq("hold", pending, "--reason", hostile)
    await batchq("terminate", placed, "--reason", hostile)
    await batchq("wait", placed)

    _, (_, failed, waits), _ = await batchq("why", "fit")

    assert failed == f"1 FAILED: {escaped}"
    assert f'"{escaped}"' in waits


async def test_groups_and_jobs_are_waited_for_together(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..2")
    await batchq("submit", "busybox", "--name", "alone", *FAILS)

    status, _, printed = await batchq("wait", "fit", "alone")

    assert status == 1
    assert printed[0] == "batchq: fit: 2 SUCCEEDED, 0 FAILED"
    assert printed[-1].startswith("batchq: alone FAILED")
    status, _, printed = await batchq("wait", "fit", "alone", "--any")
    assert (status, printed) == (
        2,
        ["batchq: --any, --fail-fast and -o json take groups or jobs: use one command for each"],
    )


async def test_a_group_is_one_row_of_the_list_and_its_name_lists_its_jobs(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..3", "--wait")
    await batchq("submit", "busybox", "--name", "alone", *FAST)
    await batchq("wait", "alone")

    _, rows, _ = await batchq("list", "--columns", "name")
    _, jobs, _ = await batchq("list", "fit", "--columns", "name")

    assert rows == ["fit  3: 3 succeeded", "alone"]
    assert sorted(jobs) == ["fit-1", "fit-2", "fit-3"]  # requests at the same time have no order


async def test_the_groups_of_a_queue_are_rows_of_its_list(console, batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..3", "--wait")

    _, rows, _ = await batchq("list", "-q", "default")
    _, others, _ = await batchq("list", "-q", "night")

    assert (rows, others) == (["fit  3: 3 succeeded"], [])


async def test_an_array_that_runs_is_one_row_that_counts_stopped_children_as_stopped(console, batchq):
    job_id = await console.submit("fit", script={"seconds": None, "on_term": 0}, arrayProperties={"size": 2})
    for child in (0, 1):
        await console.wait_for(f"{job_id}:{child}", "RUNNING")
    await batchq("terminate", f"{job_id}:1")
    await console.wait_for(f"{job_id}:1", "FAILED")

    _, rows, _ = await batchq("list")
    _, listed, _ = await batchq("list", "-a", "--columns", "name,state")

    assert rows == ["fit  2: 0 succeeded, 1 stopped, 1 running"]
    assert listed == ["fit\tPENDING"]


async def test_at_most_max_running_jobs_of_a_sweep_run(batchq):
    _, ids, _ = await batchq(
        "submit", "busybox", "--name", "fit", *LASTS, "--each", "seed=1..3", "--max-running", "1", "--jobs", "1"
    )

    _, (sentence,), _ = await batchq("why", ids[2])
    _, lines, _ = await batchq("why", "fit")
    status, _, printed = await batchq("terminate", "fit", "--yes")

    assert sentence == "Waits for a place in its group fit: at most 1 job of the group run at the same time."
    assert lines[1] == f"fit-2 waits: {sentence}"
    assert status == 0, printed


async def test_failed_jobs_of_a_group_are_submitted_again_in_the_group(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAILS, "--each", "seed=1..2", "--wait")

    status, lines, _ = await batchq("wait", "fit")
    _, why, _ = await batchq("why", "fit")
    _, again, _ = await batchq("rerun", "--failed", "fit", *FAST)
    ended, _, printed = await batchq("wait", "fit")

    assert (status, lines) == (1, [])
    assert why == ["fit  2: 0 succeeded, 2 failed", "2 FAILED: exit code 3: Essential container in task exited"]
    assert len(again) == 2
    assert (ended, printed) == (0, ["batchq: fit: 2 SUCCEEDED, 0 FAILED"])
    assert (await batchq("rerun", "--failed", "fit"))[2] == ["batchq: no job matches"]


async def test_the_rest_is_cancelled_after_max_failed_failures(batchq):
    words = ("--name", "fit", *FAILS, "--each", "seed=1..4", "--max-running", "1", "--max-failed", "2")
    await batchq("submit", "busybox", *words, "--jobs", "1")

    status, _, printed = await batchq("wait", "fit")

    assert status == 1
    assert printed[-2].startswith("batchq: fit: 0 SUCCEEDED, ")
    assert "batchq: again: batchq rerun --failed fit" in printed


async def test_show_prints_the_values_and_the_results_of_a_group(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAILS, "--each", "lr=0.1,0.2", "--wait")

    _, lines, _ = await batchq("show", "fit")
    _, document, _ = await batchq("show", "fit", "-o", "json")

    assert lines[0] == "fit  2: 0 succeeded, 2 failed"
    assert sorted(line.split("\t")[1:5] for line in lines[1:]) == [
        ["fit-1", "0.1", "FAILED", "3"],
        ["fit-2", "0.2", "FAILED", "3"],
    ]
    assert json.loads("".join(document))["group"]["groupName"] == "fit"


async def test_show_prints_what_the_jobs_of_a_group_used(console, batchq):
    script = ("-e", 'BATCHQ_SIMULATED={"seconds": null, "on_term": 0, "cpus": 2, "memory_mib": 20}')
    _, ids, _ = await batchq("submit", "busybox", "--name", "fit", *script, "--each", "lr=0.1,0.2")
    for job_id in ids:
        await console.wait_for(job_id, "RUNNING")
        await console.end_measured(job_id)

    _, lines, _ = await batchq("show", "fit")
    _, document, _ = await batchq("show", "fit", "-o", "json")

    assert re.fullmatch(r"CPU time: \d\.\d s of 2 measured jobs", lines[1])
    assert lines[2] == "peak memory of a job: 20 MiB"
    assert [line.split("\t")[-1] for line in lines[3:]] == ["20 MiB"] * 2
    assert all(re.fullmatch(r"\d\.\d s", line.split("\t")[-2]) for line in lines[3:])
    assert json.loads("".join(document))["group"]["peakMemoryBytes"] == 20 * 2**20


async def test_the_same_command_continues_its_group(batchq):
    words = ("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..3", "--wait")
    _, ids, _ = await batchq(*words)

    status, again, printed = await batchq(*words)

    assert (status, again) == (0, ids)
    assert "0 submitted; 3 were submitted before, by the same command" in printed[0]


async def test_another_command_of_the_same_name_makes_another_group(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..3", "--wait")
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..2", "--wait")

    _, jobs, notices = await batchq("list", "fit", "-o", "ids")
    _, shown, (notice,) = await batchq("show", "fit")

    assert (len(jobs), notices) == (5, [])
    assert shown[0] == "fit  2: 2 succeeded"
    assert re.fullmatch(r"batchq: 2 groups have the name fit; g-[0-9a-f]{20} is the newest", notice)


async def test_why_says_how_many_failures_it_does_not_count(batchq, monkeypatch):
    monkeypatch.setattr(groups, "MAX_SHOWN", 1)
    await batchq("submit", "busybox", "--name", "fit", *FAILS, "--each", "seed=1..3", "--wait")

    _, lines, _ = await batchq("why", "fit")

    assert lines[1:] == [
        "1 FAILED: exit code 3: Essential container in task exited",
        "2 more FAILED: only the newest 1 are counted by reason",
    ]


@pytest.mark.parametrize("command", ["hold", "pause"])
async def test_more_than_20_jobs_of_a_named_group_are_confirmed(batchq, monkeypatch, command):
    monkeypatch.setattr(job_holds, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    words = ("--name", "fit", *LASTS, "--each", "seed=1..25", "--max-running", "1")
    await batchq("submit", "busybox", *words)  # hold takes those that wait

    status, _, printed = await batchq(command, "fit")

    assert status == 1
    assert re.match(rf"batchq: {command} 2[345] jobs\? \[y/N\]", printed[0])
    assert (await batchq("list", "--held", "-o", "ids"))[1] == []


async def test_the_name_of_a_group_prints_the_output_of_its_jobs(batchq):
    prints = ("-e", 'BATCHQ_SIMULATED=[{"seconds":0,"prints_environment":["seed"]}]')
    await batchq("submit", "busybox", "--name", "fit", *prints, "--each", "seed=1..3", "--wait")

    status, lines, _ = await batchq("logs", "fit")

    assert (status, sorted(lines)) == (0, ["fit-1| 1", "fit-2| 2", "fit-3| 3"])


async def test_the_name_of_a_group_selects_its_events(console, batchq):
    await batchq("submit", "busybox", "--name", "other", *FAST)
    _, ids, _ = await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "seed=1..2", "--wait")

    status, lines, _ = await batchq("events", "fit")

    events = [json.loads(line) for line in lines]
    assert (status, {event["jobId"] for event in events}) == (0, set(ids))
    assert [event["groupEnd"]["succeeded"] for event in events if "groupEnd" in event] == [2]


async def test_a_followed_group_prints_the_output_of_jobs_that_start_later(batchq, monkeypatch):
    monkeypatch.setattr(log_merge, "LOOK_INTERVAL", 0.2)
    prints = ("-e", 'BATCHQ_SIMULATED=[{"seconds":0.3,"prints_environment":["seed"]}]')
    await batchq("submit", "busybox", "--name", "fit", *prints, "--each", "seed=1..3", "--max-running", "1")

    status, lines, _ = await batchq("logs", "fit", "-f")

    assert (status, sorted(lines)) == (0, ["fit-1| 1", "fit-2| 2", "fit-3| 3"])


@pytest.mark.parametrize(("command", "first"), [("cancel", "RUNNING"), ("terminate", "FAILED")])
async def test_the_name_of_a_group_stops_its_jobs(console, batchq, command, first):
    words = ("--name", "fit", *LASTS, "--each", "seed=1..3", "--max-running", "1", "--jobs", "1")
    _, ids, _ = await batchq("submit", "busybox", *words)
    await console.wait_for(ids[0], "RUNNING")

    assert (await batchq(command, "fit"))[0] == 0

    for job_id, status in zip(ids, (first, "FAILED", "FAILED"), strict=True):
        await console.wait_for(job_id, status)


async def test_a_name_that_several_jobs_have_means_the_newest(batchq):
    await batchq("submit", "busybox", "--name", "twice", *LASTS)
    _, (newest,), _ = await batchq("submit", "busybox", "--name", "twice", *LASTS)

    _, _, printed = await batchq("show", "twice")
    _, listed, _ = await batchq("list", "twice", "-o", "ids")
    status, _, refused = await batchq("cancel", "twice", "--yes")

    assert printed == [f"batchq: 2 jobs have the name twice; {newest} is the newest"]
    assert len(listed) == 2
    assert (status, "is ambiguous" in refused[0]) == (2, True)


async def test_a_command_for_one_job_names_the_list_of_the_jobs_of_a_group(batchq):
    await batchq("submit", "busybox", "--name", "fit", *FAST, "--each", "lr=1,2")

    status, _, printed = await batchq("submit", "busybox", "--after", "fit")

    assert status == 2
    assert re.search(r"this command takes a job: name one that batchq list g-\w+ prints", printed[0])


async def test_each_row_of_a_file_is_a_job(tmp_path, console, batchq):
    (tmp_path / "runs.csv").write_text('lr,note\n0.1,"a, b"\n0.2,c\n')

    _, ids, _ = await batchq("submit", "busybox", "--name", "fit", *FAST, "--each-row", "runs.csv", "--", "{note}")

    assert [(await console.describe(job))["container"]["command"] for job in ids] == [["a, b"], ["c"]]
    assert (await console.describe(ids[0]))["parameters"] == {"lr": "0.1", "note": "a, b"}


IMPOSSIBLE_SWEEPS = (
    (("--each", "a=1", "--each", "a=2"), "'a' is given twice"),
    (("--each", "a=1,,2"), "a value is empty"),
    (("--each", "a=5..1"), "is not a range"),
    (("--each", "a=1..999999"), "is not a range"),
    (("--each", "a=0.1..0.5"), "is not a range of whole numbers, as 1..5: list the values"),
    (("--each", "1a=1..2"), "1a=1..2: the name '1a' must be letters"),
    (("--each", "a=1..1000", "--each", "b=1..1000"), "1000000 jobs are too many"),
    (("--each", "a=1", "--array", "3"), "--each and --array exclude each other"),
    (("--max-running", "3"), "--max-running and --max-failed are limits of a group"),
)


async def test_a_sweep_that_cannot_be_is_refused(batchq):
    for words, text in IMPOSSIBLE_SWEEPS:
        status, _, printed = await batchq("submit", "busybox", *words)

        assert status == 2, words
        assert text in printed[0]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("a b\n1\n", "the column 'a b'"),
        ("a,b\n1\n", "row 2 has not as many values"),
        ("a\n", "has no rows"),
        ("", "has no rows"),
        ("a;b\n1;2\n", "'a;b' is not a name .*; separate the columns by commas"),
        ("a,a\n1,2\n", "two columns have the name 'a'"),
        ('a,b\n"x,2\n', "line 2: unexpected end of data; a value with a comma"),
    ],
)
def test_a_malformed_file_of_rows_is_refused(tmp_path, rows, text):
    (tmp_path / "runs.csv").write_text(rows)

    with pytest.raises(UsageError, match=text):
        read_axes((), str(tmp_path / "runs.csv"))


def test_files_from_windows_have_the_same_rows_and_lines(tmp_path):
    (tmp_path / "runs.csv").write_bytes('\ufefflr,note\r\n0.1,"a\r\nb"\r\n\r\n,\r\n'.encode())
    (tmp_path / "lines").write_bytes("\ufeffa\r\nb\u2028c\r\n".encode())

    lines, rows = read_axes((str(tmp_path / "lines"),), str(tmp_path / "runs.csv"))

    assert rows.points == ({"lr": "0.1", "note": "a\nb"},)
    assert lines.points == ({"line": "a"}, {"line": "b\u2028c"})


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_table_that_is_not_utf_8_is_refused_with_what_to_do(tmp_path, encoding):
    (tmp_path / "runs.csv").write_bytes("name\nMüller\n".encode(encoding))

    with pytest.raises(
        UsageError, match=r"runs\.csv: it is not UTF-8 text: save it as UTF-8, a table of Excel as CSV UTF-8"
    ):
        read_axes((), str(tmp_path / "runs.csv"))


def test_text_in_braces_that_names_no_value_stays():
    request = {"jobName": "fit", "containerOverrides": {"command": ["{lr}", '{"a": 1}', "{x}"]}}

    (member,) = expand(request, read_axes(("lr=1",), None), words=3)

    assert member.request["containerOverrides"]["command"] == ["1", '{"a": 1}', "{x}"]


def test_the_summary_of_a_group_estimates_the_time_left():
    row = JobProgress(name="fit", succeeded=112, failed=3, running=8, waiting=77, mean_run=24.0)

    assert summary_line(row) == "fit  200: 112 succeeded, 3 failed, 8 running, 77 waiting; about 4 min left"


def test_a_bar_has_each_kind_of_jobs():
    row = JobProgress(name="fit", succeeded=50, failed=1, running=2, waiting=47)

    assert bar(row) == "######x>........"


async def test_a_name_of_nothing_is_refused(batchq):
    status, _, printed = await batchq("wait", "nothing")

    assert (status, printed) == (1, ["batchq: no job or group has the name 'nothing', or an id that begins so"])
