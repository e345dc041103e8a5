"""Behaviour common to all commands: invalid arguments, interruption, closed outputs, and the documentation of flags."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from batchq.cli.command_table import COMMANDS, Target
from batchq.cli.main import main, parser, subparsers_of
from batchq.cli.output import EXIT_STATUSES
from tests.cli.servers import JOB, row
from tests.docs.commands import leaves

MISUSED = 2
DOCS = Path(__file__).parents[2] / "docs"


def test_an_invalid_variable_is_reported_in_one_line(monkeypatch, capsys):
    monkeypatch.setenv("BATCHQ_PORT", "many")

    assert main(["key", "list"]) == MISUSED

    described = capsys.readouterr().err
    assert "BATCHQ_PORT: Input should be a valid integer" in described
    assert described.count("\n") == 1


def options_of(help_text):
    return help_text.partition("options:")[2].partition("exit status:")[0]


def test_the_page_on_bulk_stops_lists_each_flag_of_terminate(capsys):
    section = (DOCS / "stopping-many.md").read_text().partition("<!-- stopping -->")[0]
    documented = set(re.findall(r"`(--?[A-Za-z-]+)`", section))

    with pytest.raises(SystemExit):
        main(["terminate", "--help"])

    accepted = set(re.findall(r"(?<![\w-])--?[A-Za-z][a-z-]*", options_of(capsys.readouterr().out)))
    of_all_commands = {"-h", "--help", "--url", "--ca-bundle", "-C", "--config"}
    assert documented == accepted - of_all_commands


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        (["help"], "usage: batchq COMMAND"),
        (["help", "why"], "usage: batchq why"),
        (["ps", "--help"], "usage: batchq list"),
        (["help", "kill"], "usage: batchq terminate"),
    ],
)
def test_help_and_the_other_names_of_commands_mean_a_command(capsys, words, beginning):
    with pytest.raises(SystemExit):
        main(words)

    assert capsys.readouterr().out.startswith(beginning)


# Importing them takes 0.1 to 1 s of CPU; a command that calls a server needs none.
HEAVY = {
    "aiohttp",
    "aiosqlite",
    "asyncio",
    "botocore",
    "docker",
    "pydantic",
    "requests",
    "sqlite3",
    "batchq.domain.job",
    "batchq.store",
    "api",
    "compute",
}
OF_SOME_OUTPUT = {"argcomplete", "jmespath", "rich", "textual"}
NETWORK = {"http.client", "json", "logging", "platformdirs", "ssl", "tomllib", "urllib.request"}


def modules_imported_by(*arguments):
    program = (
        "import atexit, sys; from batchq.cli.main import main; atexit.register(lambda: print(*sys.modules)); main()"
    )
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return set(ended.stdout.splitlines()[-1].split())


def module_of(command):
    return f"batchq.cli.{COMMANDS[command].module}"


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["no-such-command"]])
def test_without_a_command_no_module_of_a_command_is_imported(arguments):
    imported = modules_imported_by(*arguments)

    assert not imported & (HEAVY | NETWORK)
    assert not imported & set(map(module_of, COMMANDS))


#: But `audit` and `doctor`, which read files beside a server.
CALLS_A_SERVER = [
    name for name, row in COMMANDS.items() if row.target is Target.SERVER and name not in {"audit", "doctor"}
]


@pytest.mark.process
@pytest.mark.parametrize("command", CALLS_A_SERVER)
@pytest.mark.parametrize("flag", ["--help", pytest.param("--no-such-flag", marks=pytest.mark.exhaustive)])
def test_a_command_that_calls_a_server_does_not_import_what_serves(command, flag):
    imported = modules_imported_by(command, flag)

    assert module_of(command) in imported
    assert not imported & (HEAVY | OF_SOME_OUTPUT)


def test_each_command_on_a_server_has_the_flags_of_a_server():
    has_url = {words for words, command in leaves() if "--url" in command._option_string_actions}

    targets = {Target.SERVER, Target.SERVER_OR_FILES}
    assert has_url == {words for words, _ in leaves() if COMMANDS[words.partition(" ")[0]].target in targets}


def wide_lines(help_text):
    """Only lines of examples and of the usage, which argparse breaks between arguments, may be longer."""
    lines = help_text.partition("\n\n")[2].splitlines()
    return [line for line in lines if len(line) > 80 and not line.startswith("  batchq ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_is_printed_as_wide_as_the_terminal(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])

    assert ended.value.code == 0
    printed = capsys.readouterr().out
    usage, description, *_ = printed.split("\n\n")
    assert usage.startswith(f"usage: batchq {name} [-h]")
    assert description[0].isupper()
    assert wide_lines(printed) == []


def test_the_list_of_commands_is_as_wide_as_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["--help"])

    assert wide_lines(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frob"], "unknown command 'frob'; see batchq --help"),
        (["cancle"], "unknown command 'cancle'; did you mean 'cancel'? see batchq --help"),
        (["cancel", "--frob"], "unrecognized arguments: --frob; see batchq cancel --help"),
        (["cancel", "--dry-rum"], "unrecognized arguments: --dry-rum; did you mean '--dry-run'? see batchq cancel"),
        (["cancel", "--reson=1"], "unrecognized arguments: --reson=1; did you mean '--reason'? see batchq cancel"),
        (["user", "frob"], "unknown command 'frob'; the commands are add, "),
        (["user"], "one of these commands is missing: add, "),
        (["user", "lst"], "unknown command 'lst'; did you mean 'list'? see batchq user --help"),
        (["list", "--limit", "x"], "argument --limit: 'x' is not a whole number; see batchq list --help"),
        (["run", "a", "echo", "-n"], "the command begins behind --, as in: batchq run a -- echo -n; see batchq run"),
        (["exec", "a", "ls"], "the command begins behind --, as in: batchq exec a -- ls; see batchq exec --help"),
        (["user", "add"], "the following arguments are required: name; see batchq user add --help"),
        (["squeue"], "unknown command 'squeue'; did you mean 'list'? see batchq --help"),
        (["user", "create", "bob"], "unknown command 'create'; did you mean 'add'? see batchq user --help"),
        (
            ["queue", "create", "gpu"],
            "unknown command 'create'; job queues are created by: aws batch create-job-queue;",
        ),
        (["key", "create", "bob"], "unrecognized arguments: bob; did you mean '--user bob'? see batchq key create"),
        (["--url", "http://a:1", "list"], "unknown command 'http://a:1'; flags follow the command, as in: batchq list"),
        (["list", "--json"], "unrecognized arguments: --json; in place of --json: -o json; see batchq list --help"),
        (["exec", "-it", "a", "sh"], "unrecognized arguments: -it sh; in place of -it: nothing: in a terminal"),
        (["submit", "a", "-l", "b=1"], "unrecognized arguments: -l b=1; in place of -l: --vcpus, --memory and --time"),
        (
            ["terminate", "--all"],
            "unrecognized arguments: --all; in place of --all: -t all; see batchq terminate --help",
        ),
        (
            ["submit", "--cpus", "4", "--mem", "8G", "python", "train.py"],
            "unrecognized arguments: --cpus --mem 8G python train.py; in place of --cpus: --vcpus N; in place of --mem",
        ),
    ],
)
def test_a_wrong_command_or_flag_is_reported_in_one_line(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == MISUSED
    error = capsys.readouterr().err
    assert error.startswith(f"batchq: {message}")
    assert error.count("\n") == 1


def test_without_arguments_the_help_is_printed(capsys):
    assert main([]) == 0

    assert capsys.readouterr().out.startswith("usage: batchq COMMAND [flags]\n")


def test_the_version_is_that_of_the_installed_package(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])

    assert capsys.readouterr().out == f"batchq {version('batchq')}\n"


def test_the_help_lists_all_commands_but_that_of_another_program(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])

    assert set(re.findall(r"^  ([a-z][a-z-]+)  ", capsys.readouterr().out, re.MULTILINE)) == set(COMMANDS) - {"ccancel"}


def examples_of_help():
    """The words of each call of batchq in the examples of the helps."""
    commands = subparsers_of(parser())
    for command in commands.values():
        command.declare()
    for text in [command.description for command in commands.values()]:
        for example in re.findall(r"^ +((?:\S.*)?batchq .+)$", text, re.MULTILINE):
            shown = re.split(r" {2,}", example)[0]
            for call in re.split(r" [|] | && ", shown):
                if call.startswith("batchq "):
                    yield call


def test_the_examples_of_the_help_are_calls_that_parse():
    whole = parser()
    for call in examples_of_help():
        whole.parse_args(shlex.split(call)[1:])


def test_the_page_on_the_command_line_has_the_exit_statuses_of_the_help():
    assert f"```text\n{EXIT_STATUSES}\n```\n" in (DOCS / "command-line.md").read_text()


@pytest.fixture
def closed_pipe():
    """A pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("out", "end"),
    [(">&{pipe}", (1, "")), ("> /dev/full", (1, "batchq: [Errno 28] No space left on device\n")), (">&-", (0, ""))],
)
def test_output_without_a_reader_is_reported_in_at_most_one_line(tmp_path, closed_pipe, unbuffered, out, end):
    shell = f"{sys.executable} -m batchq account list --data {tmp_path} {out.format(pipe=closed_pipe)}"

    described = subprocess.run(
        ["bash", "-c", shell],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        pass_fds=[closed_pipe],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (described.returncode, described.stderr) == end


@pytest.mark.process
async def test_a_line_that_cannot_be_written_is_a_failure(native):
    native.rows = [row("train", "RUNNING")]
    shell = f"exec {sys.executable} -m batchq list -a > /dev/full"

    listing = await asyncio.create_subprocess_exec("bash", "-c", shell, stderr=asyncio.subprocess.PIPE)
    _, error = await listing.communicate()

    assert (listing.returncode, error) == (1, b"batchq: cannot write the output: No space left on device\n")


LOG_PAGE = {"lines": [{"at": 0, "message": "one"}], "next": "1.1", "over": False}
EVENT = {"number": 1, "at": 0, "jobId": JOB, "jobName": "train", "jobQueue": "default", "user": "ada", "account": "lab"}
EVENTS_PAGE = {"events": [EVENT | {"status": "RUNNING"}], "next": 1, "gap": False}


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "path", "page"),
    [
        (["logs", JOB, "-f"], f"/v1/batchq/jobs/{JOB}/log", LOG_PAGE),
        (["events", "-f", "--from", "0"], "/v1/batchq/events", EVENTS_PAGE),
    ],
)
async def test_a_command_that_waits_for_more_output_ends_with_its_reader(native, command, path, page):
    released = asyncio.Event()

    async def respond(_):
        if any(path in earlier for _, earlier, _ in native.requests[:-1]):
            await released.wait()
        return page

    native.rows = [row()]
    native.responses[path] = respond
    piped = asyncio.subprocess.PIPE
    shell = f"{sys.executable} -m batchq {' '.join(command)} | head -1; echo ${{PIPESTATUS[0]}}"
    running = await asyncio.create_subprocess_exec("bash", "-c", shell, env=os.environ, stdout=piped, stderr=piped)

    out, err = await running.communicate()

    released.set()
    assert out.decode().splitlines()[-1] == "1"
    assert err == b""


@pytest.mark.process
def test_any_command_can_be_interrupted(tmp_path):
    pipe = tmp_path / "without-a-writer"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "batchq", "whoami", "--config", str(pipe)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running, pipe.open("w"):
        running.send_signal(signal.SIGINT)

        _, printed = running.communicate()

    assert (running.returncode, printed) == (130, "batchq: interrupted\n")
