"""Ctrl-C in `batchq run`: asks whether to leave, cancel or terminate the job, with the effect of each at present."""

import sys
from collections.abc import Mapping
from enum import StrEnum

from batchq.cli.bulk_stop import CANCEL, DONE, TERMINATE
from batchq.cli.http_client import stream
from batchq.cli.job_columns import short_id
from batchq.cli.job_end import FINISHED, Job, is_array
from batchq.cli.output import escape, print_notice
from batchq.cli.terminal import is_terminal

TIMEOUT = 30.0  # seconds until the first byte of the response
REASON = "stopped from batchq run"
PROMPT = "[Enter] leave  [c]ancel  [t]erminate  [b]ack: "


class Answer(StrEnum):
    """What to do with the job."""

    LEAVE = ""
    CANCEL = "c"
    TERMINATE = "t"
    BACK = "b"


def can_ask() -> bool:
    """Whether there is a terminal to ask and to answer on."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def ask(job: Job) -> Answer:
    """Show the choices and read the answer. Ctrl-C and the end of the input mean LEAVE."""
    print(f"\n{escape(job['jobName'])} is {job['status']}.", file=sys.stderr)
    for answer, effect in effects(job).items():
        print(f"  {answer.value or 'Enter':5}  {answer.name.lower()}: {effect}", file=sys.stderr)
    while True:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        try:
            text = sys.stdin.readline()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return Answer.LEAVE
        if not text.endswith("\n") or not text.strip():
            return Answer.LEAVE
        if text.strip().lower()[:1] in set(Answer):
            return Answer(text.strip().lower()[:1])


def effects(job: Job) -> Mapping[Answer, str]:
    """What each answer does in the present state of the job."""
    leave = f"nothing changes; batchq logs -f {short_id(job['jobId'])} follows it again"
    if job["status"] in FINISHED:
        cancel = terminate = "nothing changes, it has ended"
    elif is_array(job):
        cancel = "children that have not started never do; the others run on and are not retried"
        terminate = "children that have not started never do; the others get SIGTERM, and SIGKILL after their grace"
    elif job["status"] in ("STARTING", "RUNNING"):
        cancel = "its attempt runs on; if it fails it is not retried"
        terminate = "SIGTERM now, SIGKILL after its grace period; FAILED whatever its exit code, not retried"
    else:
        cancel = "FAILED at once; it never starts"
        terminate = "the same"
    return {
        Answer.LEAVE: leave,
        Answer.CANCEL: cancel,
        Answer.TERMINATE: terminate,
        Answer.BACK: "follow it again",
    }


def stop(url: str, job_id: str, *, answer: Answer) -> None:
    """Cancel or terminate the job, and print what has happened. Raises the errors of `http_client.call`."""
    path = CANCEL if answer is Answer.CANCEL else TERMINATE
    with stream(url, path, {"jobs": [job_id], "reason": REASON}, timeout=TIMEOUT) as objects:
        for each in objects:
            if "outcome" in each:
                outcome = str(each["outcome"])
                message = f": {each['message']}" if each.get("message") else ""
                print_notice(f"{job_id}  {DONE.get(outcome) or outcome.lower().replace('_', ' ')}{message}")
