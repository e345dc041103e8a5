"""LeaveSafeMode: an admin ends safe mode after a restore (decision 0016), or accepts a new engine (decision 0037)."""

from pydantic import BaseModel, ConfigDict

from batchq.accounts.wire import EmptyAnswer
from batchq.api.operation_table import Call, OperationTable
from batchq.domain.access.accounts import Permission
from batchq.services.jobs import JobService


class LeaveSafeModeRequest(BaseModel):
    """How to leave safe mode."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    #: Whether containers that no job owns are removed; otherwise they are left alone for good.
    purge: bool = False
    #: Required if another engine answers than the one of the jobs: accept it, and give up the jobs that ran on the
    #: other one.
    newEngine: bool = False  # noqa: N815 - the wire's name


operations = OperationTable[JobService]()


@operations.add("LeaveSafeMode", "POST", "/v1/batchq/leavesafemode", permission=Permission.MAINTENANCE)
async def leave_safe_mode(jobs: JobService, call: Call[LeaveSafeModeRequest]) -> EmptyAnswer:
    """Ends the safe mode after a restore, or accepts a new container engine."""
    await jobs.leave_safe_mode(purge=call.input.purge, new_engine=call.input.newEngine, caller=call.caller)
    return EmptyAnswer()
