"""The command that sends a signal in a container, and the meaning of its outcome."""

import asyncio
import subprocess
from contextlib import asynccontextmanager

import pytest

from batchq.compute.kubernetes import exec_signal
from batchq.compute.kubernetes.exec_signal import SIGNAL_FIRST_PROCESS, Delivery, delivery_of
from batchq.compute.kubernetes.rest import RestClient
from batchq.errors import RuntimeUnknown
from tests.support.containers import started
from tests.support.scripts import Script

OWN, OTHER = "12:pids:/pod/own\n1:name=systemd:/pod/own\n", "12:pids:/pod/other\n1:name=systemd:/pod/other\n"
#: The parent and the cgroup of each process of a pod of two containers. Process 1 is the pause container.
PROCESSES = {1: (0, "12:pids:/pod/pause\n"), 7: (0, OWN), 8: (7, OWN), 20: (0, OTHER), 21: (20, OTHER)}


@pytest.fixture
def signalled(tmp_path):
    """Runs the command with this `/proc`, without any program beside the shell. Returns its exit code and output."""

    def run(processes, own=OWN):
        for pid, (parent, cgroup) in {**processes, "self": (0, own)}.items():
            folder = tmp_path / str(pid)
            folder.mkdir()
            (folder / "cgroup").write_text(cgroup)
            (folder / "status").write_text(f"Name:\tsh\nPid:\t{pid}\nPPid:\t{parent}\n")
        (tmp_path / "99").mkdir()  # a process that has just ended
        script = SIGNAL_FIRST_PROCESS.format(signal="TERM").replace("/proc", str(tmp_path))
        command = ["/bin/sh", "-c", f'kill() {{ echo "$@"; }}; {script}']
        done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    return run


@pytest.mark.process
def test_the_first_process_of_the_own_container_is_signalled_by_a_shell_alone(signalled):
    assert signalled(PROCESSES) == (0, "-s TERM 7\n")


@pytest.mark.process
def test_a_first_process_that_is_not_there_is_reported(signalled):
    others = {pid: process for pid, process in PROCESSES.items() if pid != 7}

    assert signalled(others) == (3, "")


@pytest.mark.process
def test_nothing_is_signalled_if_the_own_container_is_not_known(signalled):
    assert signalled({1: (0, ""), 7: (0, "")}, own="") == (4, "")


async def test_a_command_whose_node_sends_nothing_any_more_is_given_up(model, monkeypatch):
    @asynccontextmanager
    async def silent_exec(*_):
        yield silence()

    async def silence():
        await asyncio.Event().wait()
        yield

    runtime, _ = model
    tag = await started(runtime, Script(seconds=None))
    monkeypatch.setattr(RestClient, "exec", silent_exec)
    monkeypatch.setattr(exec_signal, "COMMAND_TIMEOUT", 0.05)

    with pytest.raises(RuntimeUnknown):
        await runtime.signal_stop(tag)


def failed(code):
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


@pytest.mark.parametrize(
    ("status", "delivery"),
    [
        ({"status": "Success"}, Delivery.DELIVERED),
        (failed(1), Delivery.IMPOSSIBLE),
        (failed(3), Delivery.FAILED),
        (failed(127), Delivery.IMPOSSIBLE),
        (failed(137), Delivery.FAILED),
        (failed(143), Delivery.FAILED),
        ({"reason": "InternalError", "message": 'exec: "sh": executable file not found in $PATH'}, Delivery.IMPOSSIBLE),
        ({"reason": "InternalError", "message": "stat /bin/sh: no such file or directory"}, Delivery.IMPOSSIBLE),
        ({"reason": "InternalError", "message": "lstat /proc/7/ns/ipc: no such file or directory"}, Delivery.FAILED),
        ({"reason": "InternalError", "message": "fork: resource temporarily unavailable"}, Delivery.FAILED),
    ],
)
def test_the_status_of_a_command(status, delivery):
    assert delivery_of(status) is delivery
