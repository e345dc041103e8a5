"""Checkpoints of a job."""

from msgspec import Struct

from batchq.domain.enums import CheckpointType


class CheckpointResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint: a file or directory in the job's checkpoint directory."""

    #: `ckpt_` and 12 hex digits.
    id: str
    #: The name of the file or directory.
    name: str
    type: CheckpointType
    #: A lower bound if it has very many files.
    size_bytes: int
    #: When it was last changed, in milliseconds since 1970.
    created_at: int
    #: From its name; absent if the name has none.
    epoch: int | None = None
    step: int | None = None
    #: Whether it is written completely, as far as can be known.
    complete: bool


class CheckpointsResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The checkpoints of a job, oldest first, at most 1000."""

    job_id: str
    checkpoints: tuple[CheckpointResponse, ...]
    #: The size of all of them.
    total_size_bytes: int
    #: The id of the newest complete one, from which the next attempt can continue; absent without one.
    latest: str | None = None


class RequestCheckpointResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The request was delivered. The job writes the checkpoint later."""

    job_id: str


class DeleteCheckpointResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The deleted checkpoint."""

    job_id: str
    checkpoint_id: str
