"""The port of the checkpoint directories of jobs, and its values.

A job with `JobSpec.checkpoints` has one directory for all its attempts. A checkpoint is a file or directory at the top
of that directory. Entries with temporary names (`checkpoints.is_temporary`), METRICS_FILE, links and special files are
not checkpoints.
"""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from batchq.domain.enums import CheckpointType
from batchq.domain.ids import JobId


class Mark(StrEnum):
    """A moment of an attempt: later it is known which checkpoints were written after it, without comparing times."""

    #: Before the first signal that requests the final checkpoint.
    STOP = "stop"
    #: When the final checkpoint was found.
    FINAL = "final"


class Moment(Struct, frozen=True, kw_only=True):
    """A mark of one attempt."""

    attempt: int
    mark: Mark


class Checkpoint(Struct, frozen=True, kw_only=True):
    """One checkpoint of a job."""

    #: `ckpt_` and 12 hex digits that follow from the job and the name.
    id: str
    #: The name of the entry. Unprintable characters, undecodable bytes and backslashes are escaped by a backslash.
    name: str
    type: CheckpointType = CheckpointType.AUTOMATIC
    #: The size of its files. A lower bound if the entry has very many files.
    size_bytes: int
    #: When it was last changed, by the clock of the disk.
    created_at: datetime
    #: The number after `epoch` in the name; None: the name has none.
    epoch: int | None = None
    #: The number after `step` in the name; None: the name has none.
    step: int | None = None
    #: Whether it has not changed for a while, or no container of the job can change it any more.
    complete: bool


class PreparedDirectory(Struct, frozen=True, kw_only=True):
    """The checkpoint directory of a job, as an attempt finds it."""

    path: Path
    #: The path in the container of the checkpoint from which the attempt continues; None: there is none.
    resume_from: str | None = None


class CheckpointStore(Protocol):
    """The checkpoint directories of all jobs.

    Every method raises StoreFailed if the disk reports an error, and every one but the deletions also if the disk does
    not answer within seconds. Nothing outside the directories of checkpoints is ever read, changed or deleted, whatever
    links the containers create.
    """

    async def directory(self, job_id: JobId) -> Path | None:
        """The path of the job's directory; None if it does not exist."""

    async def prepare(
        self, job_id: JobId, *, ended: bool, final: tuple[Moment, str] | None = None
    ) -> PreparedDirectory:
        """Create the directory if it does not exist, and choose the checkpoint from which a container continues.

        That is the newest complete checkpoint. `ended` as in `entries`: the marks of earlier attempts end. `final`: the
        final checkpoint of the attempt before, and when it was found: it is chosen unless a complete checkpoint was
        written after that.
        """

    async def mark(self, job_id: JobId, moment: Moment | None, *, ended: bool = True) -> None:
        """Record which checkpoints exist now: a later one is newer, also if the clock is set back.

        A moment that was recorded before does not change; None: `since` never names it. `ended` False: a checkpoint
        that is not complete yet counts as written after the moment. Without effect for a job without a directory.
        """

    async def entries(self, job_id: JobId, *, ended: bool, since: Moment | None = None) -> tuple[Checkpoint, ...]:
        """The checkpoints of the job, oldest first, at most 1000; empty without a directory.

        `ended`: no container of the job runs, so every checkpoint is complete. `since`: only checkpoints that were
        written after this moment; empty if it was not recorded. At most the first 10,000 names of the directory are
        read.
        """

    async def metrics(self, job_id: JobId) -> bytes:
        """The end of METRICS_FILE, at most 1 MiB; empty without the file, and for a link or a special file."""

    async def record_request(self, job_id: JobId) -> None:
        """Record that a checkpoint is requested: the first one from now on is MANUAL. Without effect as in `mark`."""

    async def discard(self, job_id: JobId, names: Collection[str]) -> None:
        """Delete the checkpoints with these names. Names that do not exist are ignored."""

    async def discard_except(self, job_id: JobId, names: Collection[str]) -> None:
        """Delete everything in the directory except these names; then the directory if it is empty."""

    async def discard_temporary(self, job_id: JobId) -> None:
        """Delete the entries with temporary names; then the directory if it is empty."""

    async def jobs(self, *, after: JobId | None, limit: int) -> tuple[JobId, ...]:
        """The jobs that have a directory, by id, from the first one after `after` on."""
