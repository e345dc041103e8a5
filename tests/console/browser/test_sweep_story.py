"""A sweep of 200 jobs on Docker, as its user sees it: on a terminal, on the page of its group, and by a webhook."""

import csv
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.service.waiting import reaches, until
from tests.support.service import Service, reserved
from tests.webhooks.receiver import verified

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
LONG = 300_000  # milliseconds

RATES = [f"0.{number:02}" for number in range(1, 21)]
#: Seven runs end with exit code 3 unless CLIP is set, three need more than 16 MiB, twelve run until they are stopped.
AT_ONCE = 30
PROGRAM = """sleep 0.4
case "$CLIP$rate-$seed" in
  0.0[1-7]-1) echo diverged >&2; exit 3;;
  0.1[01]-[1-6]) exec sleep 600;;
  0.08-[1-3]) exec dd if=/dev/zero of=/dev/null bs=24M count=1;;
esac
echo rate $rate seed $seed"""
STOPPED = re.compile(r"0\.1[01]-[1-6]")


class Receiver:
    """A receiver of webhooks that can be away. `bodies`: what it received, oldest first."""

    def __init__(self):
        self._door = reserved()
        self.port = self._door.getsockname()[1]
        self.requests = []

    def close(self):
        self._door.close()

    @contextmanager
    def present(self):
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.requests.append((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


class Shell:
    """The commands of the user."""

    def __init__(self, service, home):
        self._on_terminal = []
        self._environment = os.environ | {"BATCHQ_URL": service.url, "XDG_CONFIG_HOME": str(home)}

    def run(self, *words, status=0):
        """The output and the messages of a command that ends with this status."""
        ended = subprocess.run(
            [sys.executable, "-m", "batchq", *words], env=self._environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == status, ended.stderr
        return ended.stdout, ended.stderr

    def on_terminal(self, *words):
        """Start a command on a pseudo-terminal of its own."""
        plan = {"command": [sys.executable, "-m", "batchq", *words], "steps": [], "columns": 120}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.terminal_session"],
            env=self._environment | {"TERM": "xterm-256color"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdin.write(json.dumps(plan))
        process.stdin.close()
        self._on_terminal.append(process)
        return process

    def close(self):
        for process in self._on_terminal:
            process.kill()
            process.stdout.close()
            process.wait()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def server(tmp_path, receiver):
    service = Service(tmp_path / "data", "--stop-grace", "2", "--webhook-hosts", f"127.0.0.1:{receiver.port}")
    service.start()
    yield service
    service.stop()
    service.remove_containers()


@pytest.fixture
def shell(server, tmp_path):
    shell = Shell(server, tmp_path)
    yield shell
    shell.close()


def submit_sweep(shell):
    """The ids of its jobs by their values."""
    out, _ = shell.run(
        *(
            "submit",
            "batchq-test:latest",
            "--name",
            "fit",
            "--vcpus",
            "0.05",
            "--memory",
            "16m",
            "--max-running",
            str(AT_ONCE),
        ),
        *("--each", f"rate={','.join(RATES)}", "--each", "seed=1..10", "--", "sh", "-c", PROGRAM),
    )
    values = [f"{rate}-{seed}" for rate in RATES for seed in range(1, 11)]
    return dict(zip(values, out.split(), strict=True))


def watch_on_page(page):
    """Follow the counts of the group on its page until all ten failures are counted. Returns the URL of the page."""
    page.get_by_role("link", name="fit", exact=True).click()
    page.wait_for_url("**/ui/groups/g-*")
    page.get_by_text("10 failed").wait_for(timeout=LONG)
    return page.url


def resubmit_with_more_memory(page):
    """Docker does not report each kill for a lack of memory (decision 0055); then the offer says that it is likely."""
    page.get_by_role("link", name=re.compile("Resubmit the 3 killed(, likely)? for memory,? with 64 MiB")).click()
    page.get_by_role("button", name="Submit 3 jobs again").click()
    page.get_by_text("3 of 3 jobs").wait_for()


def check_table(page):
    """The CSV of the group has all jobs with their values and what they used."""
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert {f"{row['rate']}-{row['seed']}" for row in rows} == {
        f"{rate}-{seed}" for rate in RATES for seed in range(1, 11)
    }
    assert len(rows) == 200
    assert all(row["run seconds"] for row in rows)
    unmeasured = [row for row in rows if not row["cpu seconds"] or not row["peak memory bytes"]]
    assert len(unmeasured) <= AT_ONCE, "only those that ran while no server did"
    assert not [row for row in unmeasured if STOPPED.fullmatch(f"{row['rate']}-{row['seed']}")]


def stored_ends(server):
    """The events of the feed about ends of groups, oldest first."""
    events = []
    while True:
        after = events[-1]["number"] if events else 0
        status, page = server.native(f"events?after={after}&limit=1000&wait=0")
        assert status == 200
        if not page["events"]:
            return [event for event in events if "groupEnd" in event]
        events += page["events"]


def test_a_sweep_of_two_hundred_jobs(server, receiver, shell, visit):
    hook = {"webhookName": "sweeps", "url": f"http://127.0.0.1:{receiver.port}/", "eventKinds": ["GROUP_ENDED"]}
    secret = server.native("createwebhook", hook)[1]["secret"]
    ids = submit_sweep(shell)
    stopped = [job for values, job in ids.items() if STOPPED.fullmatch(values)]
    terminal = shell.on_terminal("wait", "fit")
    page = visit(url=server.url).open("/ui/jobs")
    group = watch_on_page(page)

    page.goto("about:blank")
    server.kill()
    server.start()
    for job in stopped:
        reaches(server.client(), job, "RUNNING")
    shell.run("terminate", *stopped, "--reason", "no better")
    shown = json.loads(terminal.stdout.read())["output"]
    assert "178 SUCCEEDED, 22 FAILED" in shown
    assert "/200" in shown, "no progress was shown"

    page.goto(group)
    resubmit_with_more_memory(page)
    shell.run("wait", "fit", status=1)  # twelve were stopped
    again, said = shell.run("rerun", "--failed", "fit", "-e", "CLIP=1")
    assert "7 submitted" in said
    jobs = server.client().describe_jobs(jobs=again.split())["jobs"]
    assert {job["tags"]["batchq:rerun-of"] for job in jobs} == {ids[f"{rate}-1"] for rate in RATES[:7]}
    shell.run("wait", "fit", status=1)  # twelve were stopped
    page.goto(group)
    page.get_by_text("188 succeeded").wait_for()
    check_table(page)

    page.goto("about:blank")
    server.kill()
    with receiver.present():
        server.start()  # a start tries at once what waits
        until(lambda: len(receiver.requests) == 3)
    received = [verified(headers, body, secret)["data"] for headers, body in receiver.requests]
    assert received == stored_ends(server)
    ends = [event["groupEnd"] for event in received]
    counts = [(end["succeeded"], end.get("failed", 0), end["stopped"]) for end in ends]
    assert counts == [(178, 10, 12), (181, 7, 12), (188, 0, 12)]
