"""`batchq cancel` of many jobs before a real server that is killed."""

import subprocess
import sys

from tests.service.job_queue import JobQueue


def test_a_bulk_stop_is_completed_after_a_kill_of_the_server(simulated):
    queue = JobQueue(simulated, room=1)
    array = queue.submit(array=5000)
    queue.reach(f"{array}:4999", "RUNNABLE")
    command = [sys.executable, "-u", "-m", "batchq", "cancel", "-t", "pending", "--url", simulated.url]
    command_process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    command_process.stdout.readline()

    simulated.kill()

    out, err = command_process.communicate()
    assert (command_process.returncode, "The server completes the request" in err) in {(3, True), (0, False)}, out[
        -200:
    ]
    simulated.start()
    queue.reach(array, "FAILED")
    assert queue.describe(array)["arrayProperties"]["statusSummary"]["FAILED"] == 5000
