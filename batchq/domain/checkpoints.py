"""Checkpoints of a job: what the job declares in tags of its submission, and the names of checkpoints. Pure."""

import re
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from posixpath import normpath

from msgspec import Struct

from batchq.domain.container import ContainerSpec
from batchq.domain.ids import JobId
from batchq.errors import Invalid

CHECKPOINTS_TAG = "batchq:checkpoints"  # `true`: the job has a checkpoint directory
SIGNAL_TAG = "batchq:checkpoint-signal"
TIMEOUT_TAG = "batchq:checkpoint-timeout"  # seconds

#: Where the checkpoint directory is mounted in the containers of the job.
MOUNT_POINT = "/opt/ml/checkpoints"

#: The signals that a job may declare as its request for a checkpoint.
CHECKPOINT_SIGNALS = frozenset({"HUP", "INT", "USR1", "USR2"})
DEFAULT_CHECKPOINT_TIMEOUT = timedelta(seconds=120)
MIN_CHECKPOINT_TIMEOUT = timedelta(seconds=1)
MAX_CHECKPOINT_TIMEOUT = timedelta(hours=1)

#: The file in a checkpoint directory in which a program reports its metrics. It is not a checkpoint.
METRICS_FILE = "metrics.jsonl"
_TEMPORARY = (".tmp", ".part", ".partial")
_EPOCH = re.compile(r"epoch[-_=]?([0-9]{1,9})", re.IGNORECASE)
_STEP = re.compile(r"step[-_=]?([0-9]{1,15})", re.IGNORECASE)


class CheckpointRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job with a checkpoint directory is requested to write a checkpoint."""

    #: One of CHECKPOINT_SIGNALS; None: the job declares no such signal, and its stop signal is the request.
    signal: str | None = None
    #: How long a final checkpoint is waited for: from MIN_CHECKPOINT_TIMEOUT to MAX_CHECKPOINT_TIMEOUT.
    timeout: timedelta = DEFAULT_CHECKPOINT_TIMEOUT


def checkpoint_rules(tags: Iterable[tuple[str, str]]) -> CheckpointRules | None:
    """The rules that the tags of a submission make; None: the job has no checkpoint directory. Raises Invalid."""
    given = dict(tags)
    declared = given.get(CHECKPOINTS_TAG, "false")
    if declared not in {"true", "false"}:
        raise Invalid(f"The tag {CHECKPOINTS_TAG} must be true or false.")
    if declared == "false":
        for tag in (SIGNAL_TAG, TIMEOUT_TAG):
            if tag in given:
                raise Invalid(f"The tag {tag} requires the tag {CHECKPOINTS_TAG} with the value true.")
        return None
    return CheckpointRules(signal=_signal(given.get(SIGNAL_TAG)), timeout=_timeout(given.get(TIMEOUT_TAG)))


def check_mounts(containers: Iterable[ContainerSpec]) -> None:
    """Raises Invalid if a container of a job with checkpoints uses the mount point of its checkpoint directory."""
    for container in containers:
        paths = (*(it.container_path for it in container.mounts), *(it.container_path for it in container.tmpfs))
        if any(normpath(it) == MOUNT_POINT for it in paths):
            raise Invalid(f"A job with checkpoints cannot mount another volume at {MOUNT_POINT}.")


def _signal(text: str | None) -> str | None:
    if text is None:
        return None
    name = text.upper().removeprefix("SIG")
    if name not in CHECKPOINT_SIGNALS:
        raise Invalid(f"The tag {SIGNAL_TAG} must be one of {', '.join(sorted(CHECKPOINT_SIGNALS))}.")
    return name


def _timeout(text: str | None) -> timedelta:
    if text is None:
        return DEFAULT_CHECKPOINT_TIMEOUT
    least, most = (int(it.total_seconds()) for it in (MIN_CHECKPOINT_TIMEOUT, MAX_CHECKPOINT_TIMEOUT))
    if not (text.isascii() and text.isdigit()) or not least <= int(text[:9]) <= most:
        raise Invalid(f"The tag {TIMEOUT_TAG} must be a whole number of seconds from {least} to {most}.")
    return timedelta(seconds=int(text[:9]))


def is_temporary(name: str) -> bool:
    """Whether the entry is still being written: programs rename it when it is complete."""
    return name.startswith(".") or name.endswith(_TEMPORARY)


def is_checkpoint(name: str) -> bool:
    """Whether the entry of a checkpoint directory is a complete checkpoint."""
    return not is_temporary(name) and name != METRICS_FILE


def checkpoint_id(job_id: JobId, name: str) -> str:
    """The id of the checkpoint with this file name (not escaped)."""
    return f"ckpt_{sha256(f'{job_id}/{name}'.encode(errors='surrogateescape')).hexdigest()[:12]}"


def escaped(name: str) -> str:
    """The file name as text: unprintable characters, undecodable bytes and backslashes are escaped."""
    return "".join(it if it.isprintable() and it != "\\" else it.encode("unicode_escape").decode() for it in name)


def epoch_of(name: str) -> int | None:
    """The number after `epoch` in the name, as in `epoch-3.pt`."""
    return _number(_EPOCH, name)


def step_of(name: str) -> int | None:
    """The number after `step` in the name, as in `epoch-3-step-1200.pt`."""
    return _number(_STEP, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.search(name)
    return None if found is None else int(found[1])
