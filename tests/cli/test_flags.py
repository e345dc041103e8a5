"""The flags of all commands: one letter means one thing."""

import sys
from argparse import _HelpAction, _SubParsersAction
from io import StringIO

import pytest

from batchq.cli import job_holds
from batchq.cli.main import CommandParser
from batchq.cli.main import parser as batchq_parser
from tests.cli.responses import overview
from tests.cli.servers import batchq, row

#: The letters of CraneSched's ccancel, whose flags `batchq ccancel` takes.
FOREIGN = {("ccancel", "-v")}


def commands(parser, name=""):
    """All commands and subcommands, by name."""
    if isinstance(parser, CommandParser):
        parser.declare()
    yield name, parser
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for word, other in action.choices.items():
                yield from commands(other, f"{name} {word}".strip())


def test_one_letter_is_one_flag_in_every_command():
    meanings = {}
    for name, parser in commands(batchq_parser()):
        for action in parser._actions:
            long = next((flag for flag in action.option_strings if flag.startswith("--")), "")
            for flag in action.option_strings:
                if not flag.startswith("--") and (name, flag) not in FOREIGN and not isinstance(action, _HelpAction):
                    meanings.setdefault(flag, {}).setdefault(long, []).append(name)

    assert {letter: commands for letter, commands in meanings.items() if len(commands) > 1} == {}
    assert meanings["-q"].keys() == {"--queue"}


WAITING, UNFINISHED = ["SUBMITTED", "PENDING", "RUNNABLE"], ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"]


@pytest.mark.parametrize(
    ("words", "selection"),
    [
        (["hold", "-q", "gpu"], {"jobQueues": ["gpu"], "jobStatuses": WAITING}),
        (["pause", "--me", "-n", "fit-*"], {"mine": True, "jobNames": ["fit-*"], "jobStatuses": UNFINISHED}),
        (["pause", "-t", "R"], {"jobStatuses": ["STARTING", "RUNNING"]}),
        (["release", "-A", "lab"], {"accounts": ["lab"], "held": True}),
        (["resume", "-u", "ann"], {"users": ["ann"], "held": True}),
        (["logs", "-t", "F", "-d", "fit"], {"jobDefinitions": ["fit"], "jobStatuses": ["FAILED"]}),
        (["cost", "--stopped", "no"], {"stopped": False}),
        (["cost", "-w", "local"], {"computeEnvironments": ["local"]}),
    ],
)
async def test_the_filters_select_the_jobs_of_every_command(native, words, selection):
    assert await batchq(*words) == 0

    assert native.requests == [("POST", "/v1/batchq/listjobs", selection | {"maxResults": 1000})]


async def test_top_shows_the_selected_jobs(native):
    native.responses["/v1/batchq/overview"] = overview()

    await batchq("top", "-q", "gpu")

    assert {request["jobQueues"][0] for request in native.listed} == {"gpu"}


@pytest.mark.parametrize("command", ["hold", "pause", "release", "resume", "logs"])
async def test_a_command_without_a_job_or_a_filter_changes_nothing(native, capsys, command):
    assert await batchq(command) == 2

    assert "no jobs are selected" in capsys.readouterr().err
    assert native.requests == []


@pytest.mark.parametrize(("answer", "status", "requested"), [("n\n", 1, 0), ("y\n", 0, 21)])
async def test_many_jobs_of_a_filter_are_confirmed(native, monkeypatch, answer, status, requested):
    native.rows = [row(jobId=f"{number:08x}-0000-4000-8000-000000000000", status="RUNNABLE") for number in range(21)]
    for other_row in native.rows:
        held = {name: other_row[name] for name in ("jobId", "jobName", "status")}
        native.responses[f"/v1/batchq/jobs/{other_row['jobId']}/hold"] = held
    monkeypatch.setattr(job_holds, "can_ask", lambda: True)
    monkeypatch.setattr(sys, "stdin", StringIO(answer))

    assert await batchq("hold", "-q", "gpu") == status

    assert len(native.requests) == 1 + requested
