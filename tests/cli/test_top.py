"""`batchq top`: what it requests and shows, its keys by textual's pilot, and the single picture of a pipe."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import convert
from textual.widgets import DataTable, Input, Static

from batchq.cli.main import main
from batchq.cli.top_screen import StopDialog, TextScreen, TopApp
from batchq.cli.top_view import FAST, SLOW, TopServer, TopSnapshot, TopState, View, summary_lines
from batchq.domain.enums import Status
from tests.cli.responses import AT as RESPONSE_AT
from tests.cli.responses import details, environment, explanation, machine, machine_list, overview, queue
from tests.cli.servers import job_id, row
from tests.cli.terminal_session import on_terminal

AT = datetime(2026, 11, 23, 14, 2, tzinfo=UTC)
OVERVIEW = overview(
    queues=[
        queue("night", "DISABLED", counts={"RUNNABLE": 88}),
        queue(
            "default",
            counts={"RUNNING": 12, "STARTING": 1, "RUNNABLE": 1204},
            oldestRunnableAt=int((AT - timedelta(minutes=3)).timestamp() * 1000),
            why=explanation("Requires 4 vCPUs, 1.5 of 8 are free."),
        ),
    ],
    capacity=[environment(memory=(24_576, 20_480))],
    failed={
        "count": 214,
        "more": False,
        "groups": [{"jobDefinition": "train:3", "reason": "exit code 1", "count": 180}],
    },
)
ONE_MACHINE = machine_list(machine("local"))
TRAIN, BLAST = row(), row("blast", jobId=job_id("77ab01c9"))


def counts_of(**counts):
    return {status: counts.get(status, 0) for status in Status}


@pytest.fixture
def top_server(native):
    native.rows = [TRAIN, BLAST, row("sweep", "FAILED", jobId=job_id("91aa0000"))]
    native.responses |= {"/v1/batchq/overview": OVERVIEW, "/v1/batchq/listmachines": ONE_MACHINE}
    return native


# ---------------------------------------------------------------------------------------------------------- decisions
def snapshot(machines=ONE_MACHINE, rows=(), **changes):
    return convert({"overview": OVERVIEW | changes, "rows": rows, "machines": machines}, TopSnapshot)


def test_the_summary_shows_the_busiest_queue_first_and_what_is_requested_of_each_limit():
    assert summary_lines(snapshot(), AT) == [
        "Docker answers.  ada (admin)",
        "default             13 running     1204 waiting (3 min)  Requires 4 vCPUs, 1.5 of 8 are free.",
        "night            DISABLED     0 running       88 waiting",
        "local            vCPUs 6.5 of 8 [########..]",
        "memory           20 of 24 [########..] GiB",
        "failed, 24 h     214: 180 train:3 exit code 1",
    ]


def test_several_machines_have_a_line_each_and_further_ones_are_counted():
    away = machine("n1", "AWAY", awaySince=int((AT - timedelta(minutes=3)).timestamp() * 1000), jobs=[TRAIN])
    ready = machine("n2", jobs=[TRAIN, BLAST], job_count=4)
    counts = {"READY": 20, "AWAY": 1, "CORDONED": 1}
    room = "vCPUs 6.5 of 8 [########..]   memory 20 of 24 [########..] GiB   GPUs 1 of 2 [#####.....]"

    lines = summary_lines(snapshot(machine_list(away, machine("n3", "CORDONED"), ready, counts=counts)), AT)

    assert lines[5:9] == [
        f"n1               AWAY for 3 min {room}   1 job: train",
        f"n3               CORDONED {room}   0 jobs",
        f"n2               {room}   4 jobs: train, blast, ...",
        "22 machines: 1 AWAY, 1 CORDONED, 20 READY; batchq env show ENVIRONMENT lists them",
    ]


def test_equal_responses_make_the_requests_rarer_until_something_changes():
    state = TopState()
    intervals = []
    for at in range(7):
        state.received(snapshot(rows=[TRAIN], at=at))
        intervals.append(state.interval)
    assert intervals == [FAST] * 5 + [SLOW] * 2
    state.received(snapshot(rows=[TRAIN, BLAST]))
    assert state.interval == FAST


def test_each_view_requests_its_statuses_and_failures_by_their_end():
    state = TopState()
    state.name = "tr"
    assert state.filters() == {
        "jobStatuses": ["STARTING", "RUNNING"],
        "explain": False,
        "children": True,
        "jobNames": ["*tr*"],
    }
    state.switch()
    assert (state.view, state.filters()["jobStatuses"]) == (View.WAITING, ["SUBMITTED", "PENDING", "RUNNABLE"])
    state.switch()
    assert state.filters() == {"jobStatuses": ["FAILED"], "explain": True, "orderBy": "ENDED", "jobNames": ["*tr*"]}
    state.switch()
    assert state.view is View.RUNNING


# ---------------------------------------------------------------------------------------------------------- the program
def app_of(native):
    return TopApp(TopServer(native.url))


async def shown(pilot):
    """Waits until the requests in progress are shown."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def names(app):
    table = app.query_one(DataTable)
    return [str(table.get_row_at(at)[1]) for at in range(table.row_count)]


async def test_the_screen_shows_the_queues_and_the_jobs_of_the_view_and_slash_those_of_a_name(top_server):
    async with app_of(top_server).run_test(size=(100, 24)) as pilot:
        await shown(pilot)
        assert names(pilot.app) == ["train", "blast"]
        assert "1204 waiting" in str(pilot.app.query_one("#summary", Static).content)
        await pilot.press("tab", "tab")
        await shown(pilot)
        assert names(pilot.app) == ["sweep"]
        assert "FAILED" in str(pilot.app.query_one("#view", Static).content)
        await pilot.press("slash", *"bla", "enter")
        await shown(pilot)
        assert [content["jobNames"] for content in top_server.listed if "jobNames" in content] == [["*bla*"]]
        assert not pilot.app.query_one(Input).has_class("shown")


async def test_a_refresh_keeps_the_selected_job_and_asks_a_server_again_that_did_not_answer(top_server):
    async with app_of(top_server).run_test(size=(100, 24)) as pilot:
        await shown(pilot)
        await pilot.press("down")
        top_server.rows = [row("new", jobId=job_id("aaaaaaaa")), TRAIN, BLAST]
        pilot.app.refresh_jobs()
        await shown(pilot)
        assert names(pilot.app) == ["new", "train", "blast"]
        assert pilot.app.query_one(DataTable).cursor_row == 2
        del top_server.responses["/v1/batchq/overview"]
        pilot.app.refresh_jobs()
        await shown(pilot)
        assert "does not exist" in str(pilot.app.query_one("#view", Static).content)
        top_server.responses["/v1/batchq/overview"] = OVERVIEW
        top_server.rows.pop(0)
        pilot.app.refresh_jobs()
        await shown(pilot)
        assert names(pilot.app) == ["train", "blast"]


async def test_keys_show_a_text_about_the_selected_job(top_server):
    top_server.responses |= {
        f"/v1/batchq/jobs/{TRAIN['jobId']}/why": explanation("Runs since 14:02.", jobId=TRAIN["jobId"]),
        f"/v1/batchq/jobs/{TRAIN['jobId']}/log": {
            "lines": [{"at": 1, "message": "epoch 1"}],
            "next": "1.1",
            "over": False,
        },
    }
    async with app_of(top_server).run_test(size=(100, 24)) as pilot:
        await shown(pilot)
        for key, line in (("w", "Runs since 14:02."), ("l", "epoch 1")):
            await pilot.press(key)
            await shown(pilot)
            assert isinstance(pilot.app.screen, TextScreen)
            assert line in str(pilot.app.screen.query_one(Static).content)
            await pilot.press("escape")
            assert not isinstance(pilot.app.screen, TextScreen)


async def test_an_array_that_runs_is_a_line_above_the_table(top_server):
    top_server.rows.append(
        row("fit", "PENDING", arraySize=9, statusSummary=counts_of(SUCCEEDED=5, FAILED=2), stoppedChildren=1)
    )
    async with app_of(top_server).run_test(size=(100, 24)) as pilot:
        await shown(pilot)
        text = str(pilot.app.query_one("#summary", Static).content)
    assert "fit  9: 5 succeeded, 1 failed, 1 stopped, 2 waiting" in text
    assert not any("children" in content for content in top_server.listed)


async def test_enter_shows_the_details_of_the_selected_job_in_words(top_server):
    top_server.responses |= {
        f"/v1/batchq/jobs/{TRAIN['jobId']}": {
            "job": details(TRAIN | {"startedAt": RESPONSE_AT, "stoppedAt": RESPONSE_AT + 60_000})
        },
        f"/v1/batchq/jobs/{TRAIN['jobId']}/why": explanation("Next in queue default.", jobId=TRAIN["jobId"]),
    }
    async with app_of(top_server).run_test(size=(100, 40)) as pilot:
        await shown(pilot)
        await pilot.press("enter")
        await shown(pilot)
        text = str(pilot.app.screen.query_one(Static).content)
    assert "why                Next in queue default." in text
    assert "took               1 min" in text
    assert "createdAt" not in text
    assert str(RESPONSE_AT) not in text


async def test_a_stop_needs_a_reason_and_is_carried_out_with_it_unless_escape_is_pressed(top_server):
    top_server.responses["/v1/terminatejob"] = {}
    async with app_of(top_server).run_test(size=(100, 24)) as pilot:
        await shown(pilot)
        await pilot.press("c", *"hot", "escape")
        await shown(pilot)
        assert not isinstance(pilot.app.screen, StopDialog)
        await pilot.press("t", "enter")
        assert isinstance(pilot.app.screen, StopDialog)
        await pilot.press(*"hot", "enter")
        await shown(pilot)
    sent = [content for _, path, content in top_server.requests if path == "/v1/terminatejob"]
    assert sent == [{"jobId": TRAIN["jobId"], "reason": "hot"}]
    assert not [path for _, path, _ in top_server.requests if path == "/v1/canceljob"]


@pytest.mark.process
async def test_on_a_terminal_it_draws_until_q_is_pressed(top_server):
    played = await on_terminal("top", steps=[("blast", "q")])
    assert played["status"] == 0
    assert "1204 waiting" in played["output"]


@pytest.mark.process
async def test_a_terminal_without_control_sequences_gets_one_picture(top_server):
    shown = await on_terminal("top", steps=[], TERM="dumb")

    assert (shown["status"], "\x1b" in shown["output"]) == (0, False)


# -------------------------------------------------------------------------------------------------------------- a pipe
async def test_without_a_terminal_one_picture_is_printed(top_server, capsys):

    top_server.rows[0] = row("tra\x1b[31min")
    assert await asyncio.to_thread(main, ["top"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Docker answers.")
    assert "RUNNING" in printed
    assert "\x1b" not in printed
    assert f"{job_id('91aa0000')}\tsweep\tFAILED" in printed
