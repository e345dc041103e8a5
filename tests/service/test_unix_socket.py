"""Users of one machine call a server by its unix socket, without keys: real processes of several users."""

import os
import shutil
import signal
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from batchq.cli.main import main
from batchq.compute.simulated.script import Script
from tests.service.job_queue import playing
from tests.service.test_serve import refused
from tests.support.local_users import BIN, DAEMON, NAMELESS, NOBODY, needs_root, run_as
from tests.support.service import ForkedProcess, serving_forked

pytestmark = needs_root
STRANGER = (
    "bin is a user of this machine, but not of this server. "
    "An operator or an admin can add the user: batchq user add bin"
)


@pytest.fixture
def folder():
    """A folder that all users can enter, unlike those of pytest."""
    made = Path(tempfile.mkdtemp(prefix="batchq-socket-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@contextmanager
def alone(data, path, *extra):
    """A server that listens on a unix socket only; its first line."""
    words = ["serve", "--data", str(data), "--runtime", "simulated", "--socket", str(path), "--no-tcp", *extra]
    process = ForkedProcess(words, log=data.parent / "server.log")
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


def add_users(data, *words):
    """Add users to the accounts of the server, with root as the administrator."""
    for each in (["user", "add", "root", "--role", "admin"], *words):
        assert main([*each, "--data", str(data)]) == 0


def test_the_audit_log_names_the_user_of_each_process(folder):
    path = folder / "batchq.sock"
    url = f"unix://{path}"
    flags = ("--socket", str(path), "--socket-mode", "666", "--insecure-no-auth")

    with serving_forked(folder / "data", "--runtime", "simulated", *flags) as service:
        batch = service.client()
        lasts = playing(Script(seconds=None))
        batch.register_job_definition(jobDefinitionName="forever", type="container", containerProperties=lasts)
        job = batch.submit_job(jobName="a-job", jobQueue="default", jobDefinition="forever")["jobId"]
        stopped = run_as(DAEMON, "cancel", job, "--url", url)
        audit = run_as(BIN, "audit", "--job", job, "--url", url)
        over_tcp = run_as(DAEMON, "whoami", "--url", service.url)
        over_socket = [run_as(uid, "whoami", "--url", url) for uid in (0, DAEMON, BIN)]

    assert stopped[0] == 0
    assert [line.split()[1:3] for line in audit[1].splitlines()] == [
        ["daemon", "CancelJobsByFilter"],
        ["root", "SubmitJob"],
    ]
    assert over_tcp[1].startswith("root of account root, ADMIN")
    assert [text.partition(" ")[0] for _, text in over_socket] == ["root", "daemon", "bin"]


@pytest.mark.fault("SE45")
def test_only_users_of_the_accounts_are_admitted_each_with_its_role(folder):
    data, path = folder / "data", folder / "batchq.sock"
    url = f"unix://{path}"
    add_users(data, ["account", "add", "lab", "--queues", "default"], ["user", "add", "daemon", "--account", "lab"])

    with alone(data, path, "--socket-mode", "0666") as ready:
        admitted = [run_as(uid, "whoami", "--url", url) for uid in (0, DAEMON)]
        refused = [run_as(uid, "whoami", "--url", url) for uid in (BIN, NOBODY, NAMELESS)]
        forbidden = run_as(DAEMON, "user", "list", "--url", url)
        added = run_as(0, "user", "add", "bin", "--account", "lab", "--url", url)
        then = run_as(BIN, "whoami", "--url", url)
        audit = run_as(0, "audit", "--url", url)

    assert ready == f"batchq is ready at {url}"
    assert [text for _, text in admitted] == [
        "root of account root, ADMIN; all queues\n",
        "daemon of account lab, USER; queues default\n",
    ]
    assert [text for _, text in refused] == [
        f"batchq: {STRANGER}\n",
        "batchq: The uid 65534 has no user name on this machine.\n",
        "batchq: The uid 54321 has no user name on this machine.\n",
    ]
    assert forbidden == (1, "batchq: User daemon is not authorized to perform DescribeUsers.\n")
    assert added[0] == 0
    assert then == (0, "bin of account lab, USER; queues default\n")
    assert ("root" in audit[1], "CreateUser" in audit[1]) == (True, True)
    assert not path.exists()


def test_keys_and_the_socket_work_on_one_server_at_the_same_time(folder):
    data, path = folder / "data", folder / "batchq.sock"
    add_users(data, ["user", "add", "daemon"])
    flags = ("--auth", "sigv4", "--socket", str(path), "--socket-mode", "666")

    with serving_forked(data, "--runtime", "simulated", *flags) as service:
        unsigned = run_as(DAEMON, "whoami", "--url", service.url)
        by_peer = run_as(DAEMON, "whoami", "--url", f"unix://{path}")
        keyed = run_as(DAEMON, "key", "create", "--url", f"unix://{path}")

    assert unsigned[0] == 1
    assert by_peer == (0, "daemon of account root, USER; all queues\n")
    assert keyed[0] == 0


def test_the_group_of_the_socket_may_connect_and_others_may_not(folder):
    path = folder / "batchq.sock"

    with alone(folder / "data", path, "--socket-group", "daemon"):
        found = path.stat()
        member = run_as(BIN, "whoami", "--url", f"unix://{path}", gid=DAEMON)
        other = run_as(BIN, "whoami", "--url", f"unix://{path}")

    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, DAEMON)
    assert member[1].startswith("bin of account root")
    assert other[1].endswith(f"cannot reach a batchq server at unix://{path}: [Errno 13] Permission denied\n")


@pytest.mark.fault("SE47")
def test_a_lost_accounts_file_admits_no_user(folder):
    data, path = folder / "data", folder / "batchq.sock"
    add_users(data)

    with alone(data, path):
        before = run_as(0, "whoami", "--url", f"unix://{path}")
        (data / "accounts.json").unlink()
        after = run_as(0, "whoami", "--url", f"unix://{path}")

    assert (before[0], after[0]) == (0, 1)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--no-tcp"], "--no-tcp, --socket-group and --socket-mode need --socket"),
        (["--socket", "/run/b.sock", "--socket-mode", "666"], "every user of this machine could connect"),
        (["--socket", "/run/b.sock", "--socket-mode", "777"], "--socket-mode"),
        (["--socket", "b.sock"], "b.sock is not an absolute path"),
        (["--socket", "/tmp/b.sock"], "other users can write to /tmp and could replace the socket"),
        (["--socket", "/nonexistent/b.sock"], "cannot use the folder of the socket"),
        (["--socket", "/run/b.sock", "--socket-group", "no-such-group"], "there is no group no-such-group"),
    ],
)
def test_unsafe_flags_are_refused_at_the_start(tmp_path, flags, why):
    status, line = refused("--data", tmp_path / "data", "--runtime", "simulated", "--port", 0, *flags)

    assert status != 0
    assert why in line
    assert not os.path.lexists("/run/b.sock")
