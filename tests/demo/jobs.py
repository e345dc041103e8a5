"""The jobs of the demo: their commands, the requests to stop them, and their expected outcomes."""

from dataclasses import dataclass
from typing import Any

ON_TERM = "trap 'echo asked to stop; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
IGNORES_SIGTERM = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
FAIL_ONCE = 'echo attempt $AWS_BATCH_JOB_ATTEMPT; [ "$AWS_BATCH_JOB_ATTEMPT" = 2 ]'


@dataclass(frozen=True, kw_only=True)
class Play:
    """A job, and its expected outcome. The request `then` is sent in status `when`, after the output `ready`.

    The queue `narrow` has capacity for one job.
    """

    name: str
    shell: str
    queue: str = "demo"
    attempts: int = 1
    array: int | None = None
    when: str | None = None
    then: str | None = None
    ready: str | None = None
    status: str
    reason: str | None
    exit_codes: tuple[int, ...]
    walk: tuple[str, ...]
    flags: tuple[str, ...] = ()

    def wrong(self, job: dict[str, Any], walk: list[str]) -> list[str]:
        """The differences between the expected and the actual outcome."""
        seen = {
            "status": job["status"],
            "reason": job.get("statusReason"),
            "exit_codes": tuple(attempt["container"].get("exitCode") for attempt in job["attempts"]),
            "walk": tuple(walk),
            "flags": tuple(name for name in ("isCancelled", "isTerminated") if job.get(name)),
        }
        return [
            f"{name} is {value!r}, not {getattr(self, name)!r}"
            for name, value in seen.items()
            if value != getattr(self, name)
        ]


QUEUED = ("SUBMITTED", "RUNNABLE")
ONE_TRY = (*QUEUED, "STARTING", "RUNNING")
EXITED = "Essential container in task exited"

PLAYS = (
    Play(
        name="succeeds",
        shell="echo hello from $AWS_BATCH_JOB_ID; sleep 1",
        status="SUCCEEDED",
        reason=EXITED,
        exit_codes=(0,),
        walk=(*ONE_TRY, "SUCCEEDED"),
    ),
    Play(
        name="fails-and-is-retried",
        shell=FAIL_ONCE,
        attempts=3,
        status="SUCCEEDED",
        reason=EXITED,
        exit_codes=(1, 0),
        walk=(*ONE_TRY, "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"),
    ),
    Play(
        name="an-array-of-three",
        shell="echo child $AWS_BATCH_JOB_ARRAY_INDEX of $AWS_BATCH_JOB_ARRAY_SIZE",
        array=3,
        status="SUCCEEDED",
        reason=None,
        exit_codes=(),
        walk=("SUBMITTED", "PENDING", "SUCCEEDED"),
    ),
    Play(
        name="cancelled-while-runnable",
        shell="echo never",
        queue="narrow",
        when="RUNNABLE",
        then="cancel",
        status="FAILED",
        reason="not needed any more",
        exit_codes=(),
        walk=(*QUEUED, "FAILED"),
        flags=("isCancelled",),
    ),
    Play(
        name="cancelled-while-running",
        shell="echo going on; sleep 4",
        attempts=3,
        when="RUNNING",
        then="cancel",
        status="SUCCEEDED",
        reason=EXITED,
        exit_codes=(0,),
        walk=(*ONE_TRY, "SUCCEEDED"),
    ),
    Play(
        name="terminated-handles-sigterm",
        shell=ON_TERM,
        attempts=3,
        when="RUNNING",
        then="terminate",
        ready="ready",
        status="FAILED",
        reason="not needed any more",
        exit_codes=(0,),
        walk=(*ONE_TRY, "FAILED"),
        flags=("isTerminated",),
    ),
    Play(
        name="terminated-ignores-sigterm",
        shell=IGNORES_SIGTERM,
        attempts=3,
        when="RUNNING",
        then="terminate",
        ready="ready",
        status="FAILED",
        reason="not needed any more",
        exit_codes=(137,),
        walk=(*ONE_TRY, "FAILED"),
        flags=("isTerminated",),
    ),
)
