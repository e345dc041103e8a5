"""What a node of a job, as JOB#1, means for a request: some nodes stand for the whole job."""

import re
from collections.abc import Iterable

from msgspec import Struct

from batchq.cli.server_requests import describe_jobs
from batchq.errors import BatchqError

_STEP = re.compile(r"([0-9a-f-]{36})[.#](\d{1,5})", re.ASCII)
_QUEUED = ("SUBMITTED", "PENDING", "RUNNABLE")


class StepNotes(Struct, frozen=True, kw_only=True):
    """Notes on the steps that a command names."""

    #: Whether the request is CancelJob, which has no effect on single nodes.
    cancels: bool
    #: The main nodes, as `JOB#NODE`.
    main_nodes: frozenset[str]

    @classmethod
    def of(cls, url: str, jobs: Iterable[str], *, cancels: bool) -> "StepNotes":
        """Read what is known about the steps among the ids; without a step nothing is requested.

        A server that does not answer gives no notes.
        """
        steps = [parts.groups() for it in jobs if (parts := _STEP.fullmatch(it))]
        try:
            nodes = describe_jobs(url, [f"{job}#{number}" for job, number in steps]) if steps else []
        except BatchqError:  # the request itself follows, and reports the error
            nodes = []
        return cls(
            cancels=cancels,
            main_nodes=frozenset(it["jobId"] for it in nodes if it.get("nodeDetails", {}).get("isMainNode")),
        )

    def note(self, step: str, *, status: str) -> str:
        """What the request means for the step of a job that had this status; empty if it means the step alone."""
        if "#" not in step:
            return ""
        if self.cancels:
            return "a node cannot be cancelled alone, so this is the whole job"
        if step in self.main_nodes:
            return "it is the main node, so the whole job ends"
        return "the job has not started, so the whole job ends" if status in _QUEUED else ""
