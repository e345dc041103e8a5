"""Checkpoints in responses."""

from msgspec import Struct

from batchq.api.training.formats import rfc3339, size_text
from batchq.ports.checkpoints import Checkpoint, CheckpointType


class CheckpointAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A checkpoint: a file or folder at the top of the checkpoint directory of a job."""

    #: As `ckpt_8a1f02bb93c4`.
    checkpoint_id: str
    #: The name of the file or folder.
    name: str
    type: CheckpointType
    #: As `1.4 MB`, in powers of 1024.
    size: str
    size_bytes: int
    #: The number after `epoch` in the name; null: the name has none.
    epoch: int | None
    #: The number after `step` in the name; null: the name has none.
    step: int | None
    #: Whether it can be used: it has not changed for a while, or the job has ended.
    complete: bool
    #: When it was last changed.
    created_at: str


def checkpoint_answer(it: Checkpoint) -> CheckpointAnswer:
    return CheckpointAnswer(
        checkpoint_id=it.id,
        name=it.name,
        type=it.type,
        size=size_text(it.size_bytes),
        size_bytes=it.size_bytes,
        epoch=it.epoch,
        step=it.step,
        complete=it.complete,
        created_at=rfc3339(it.created_at),
    )
