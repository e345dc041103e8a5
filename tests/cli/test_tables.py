"""Output of lists: tables of a terminal, lines of a pipe, JSON, colours and times."""

import io
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta

import pytest

from batchq.cli import output, quantities
from batchq.cli.output import uses_color
from batchq.cli.tables import Column, add_output_flags, print_list
from batchq.domain.times import milliseconds
from batchq.errors import UsageError

LONG_NAME = "a name, that is longer than it should be"
ROWS = [
    {"id": "8f2c51a7-0000", "name": "train", "status": "RUNNING", "cpu": 9},
    {"id": "77ab01c9-0000", "name": LONG_NAME, "status": "FAILED", "cpu": 10},
]
LINES = ["\t".join(row[key] for key in ("id", "status", "name")) for row in ROWS]
COLUMNS = [
    Column(title="JOB", full=lambda value: value["id"], short=lambda value: value["id"][:8]),
    Column(
        title="STATE",
        full=lambda value: value["status"],
        style=lambda value: "red" if value["status"] == "FAILED" else "",
    ),
    Column(title="NAME", full=lambda item: item["name"], elastic=True),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")


def output_flags(*flags):
    parser = ArgumentParser()
    add_output_flags(parser)
    return parser.parse_args(flags)


def print_rows(*flags, rows=ROWS):
    print_list(
        output_flags(*flags),
        {"jobs": rows},
        rows,
        COLUMNS,
        more=[Column(title="CPU", full=lambda value: str(value["cpu"]))],
    )


def shown(*flags, **more):
    """The output for a terminal of 40 columns."""
    with redirect_stdout(Terminal()) as stdout:
        print_rows(*flags, **more)
    return stdout.getvalue()


def test_a_table_is_cut_to_the_width_of_the_terminal():
    assert [line.rstrip() for line in shown("--color", "never").splitlines()] == [
        "JOB       STATE    NAME",
        "8f2c51a7  RUNNING  train",
        "77ab01c9  FAILED   a name, that is long…",
    ]


def test_a_terminal_shows_colours_and_no_color_removes_them(monkeypatch):
    assert "\x1b[31mFAILED" in shown()

    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown()


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        ([], LINES),
        (["--columns", "name,job"], [f"{row['name']}\t{row['id']}" for row in ROWS]),
        (["--sort", "name"], [LINES[1], LINES[0]]),
        (["--sort", "cpu:desc"], [LINES[1], LINES[0]]),
        (["-o", "ids"], [row["id"] for row in ROWS]),
        (["-o", "jsonl", "--sort", "job"], [json.dumps(ROWS[1]), json.dumps(ROWS[0])]),
        (["-o", "csv"], ["JOB,STATE,NAME", "8f2c51a7-0000,RUNNING,train", f'77ab01c9-0000,FAILED,"{LONG_NAME}"']),
        (["-o", "table", "--columns", "job,name"], ["JOB       NAME", "8f2c51a7  train", f"77ab01c9  {LONG_NAME}"]),
        (
            ["-o", "wide"],
            [
                f"JOB            STATE    NAME{' ' * 38}CPU",
                f"8f2c51a7-0000  RUNNING  train{' ' * 37}9",
                f"77ab01c9-0000  FAILED   {LONG_NAME}  10",
            ],
        ),
        (["--color", "always"], [LINES[0], LINES[1].replace("FAILED", "\x1b[31mFAILED\x1b[0m")]),
    ],
)
def test_a_pipe_gets_whole_values_between_tabs(capsys, flags, lines):
    print_rows(*flags)

    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--sort", "colour"], "unknown column 'colour'; the columns are job, state, name, cpu"),
        (["--columns", "colour"], "unknown column 'colour'; the columns are job, state, name, cpu"),
        (["--sort", "name:down"], "--sort name:down: the order is asc or desc"),
        (["-o", "csv", "--query", "jobs"], "--query prints JSON: it excludes -o csv"),
    ],
)
def test_invalid_columns_and_forms_are_refused(flags, why):
    with pytest.raises(UsageError, match=why):
        print_rows(*flags)


def test_control_and_direction_characters_are_escaped():
    hostile = [{"id": "1", "status": "\x1b[2J", "name": "a\tb\n\u202ec"}]

    assert shown("--color", "never", rows=hostile).splitlines()[1].split() == ["1", r"\x1b[2J", r"a\tb\n\u202ec"]


@pytest.mark.parametrize("flags", [["--color", "never"], ["-o", "csv"], ["-o", "wide", "--color", "never"]])
def test_titles_are_escaped_because_users_name_the_values_of_a_sweep(flags):
    hostile = Column(title="\x1b]52;c;AAAA\x07\u202eLR", full=lambda _: "1")
    with redirect_stdout(Terminal()) as stdout:
        print_list(output_flags(*flags), {}, [{}], [hostile])

    assert stdout.getvalue().split() == [r"\x1b]52;c;AAAA\x07\u202eLR", "1"]


def test_csv_has_no_formulas_because_users_choose_values_and_reasons(capsys):
    texts = ["=HYPERLINK(1)", "+1+1", "-a", "@SUM(1)", "\uff1d1+1", "-1.5e-3", "a=b", ""]
    columns = [Column(title="=A", full=lambda row: row), Column(title="B", full=lambda _: "b")]

    print_list(output_flags("-o", "csv"), {}, texts, columns)

    cells = [line.rpartition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert cells == ["'=A", "'=HYPERLINK(1)", "'+1+1", "'-a", "'@SUM(1)", "'\uff1d1+1", "-1.5e-3", "a=b", ""]


def test_a_query_selects_from_the_response(capsys):
    print_rows("--query", "jobs[?status=='FAILED'].id")

    assert json.loads(capsys.readouterr().out) == ["77ab01c9-0000"]


def test_an_invalid_query_is_an_invalid_argument(capsys):
    with pytest.raises(SystemExit) as ended:
        output_flags("--query", "jobs[")

    assert ended.value.code == 2
    assert "'jobs[' is not a JMESPath expression" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mode", "environment", "on_terminal", "colored"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": ""}, True, True),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("always", {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_the_flag_decides_on_colours_then_the_environment_then_the_terminal(
    monkeypatch, mode, environment, on_terminal, colored
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert uses_color(mode, Terminal() if on_terminal else io.StringIO()) == colored


def test_a_closed_stdout_is_not_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)

    assert not output.is_terminal()


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (-5, "0 s", "0 s"),
        (12.9, "12 s", "12 s"),
        (717, "11 min", "11 min 57 s"),
        (32_580, "9 h", "9 h 3 min"),
        (183_600, "2 d 3 h", "2 d 3 h"),
    ],
)
def test_durations_are_given_in_their_largest_units(seconds, short, long):
    assert quantities.format_duration(timedelta(seconds=seconds)) == short
    assert quantities.format_long_duration(timedelta(seconds=seconds)) == long


def test_a_time_is_a_duration_before_now_or_in_iso_8601():
    assert quantities.parse_time("2026-11-23T18:30+00:00") == datetime(2026, 11, 23, 18, 30, tzinfo=UTC)
    before = quantities.now()
    assert before <= quantities.parse_time("1h") + timedelta(hours=1) <= quantities.now()
    with pytest.raises(ArgumentTypeError):
        quantities.parse_time("yesterday")


def test_times_of_a_response_are_local_with_their_offset():
    at = quantities.local_time(1_795_000_000_000)

    assert milliseconds(at) == 1_795_000_000_000
    assert datetime.fromisoformat(quantities.iso_text(at)) == at
    assert quantities.local_time(None) is None
    assert quantities.local_time(10**30) is None
