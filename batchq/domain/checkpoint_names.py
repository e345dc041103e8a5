"""Names of checkpoints: which entries of a checkpoint directory are checkpoints, and what their names contain. Pure."""

import re
from hashlib import sha256

from batchq.domain.ids import JobId

#: The file in a checkpoint directory in which a program reports its metrics. It is not a checkpoint.
METRICS_FILE = "metrics.jsonl"

_TEMPORARY = (".tmp", ".part", ".partial")
_EPOCH = re.compile(r"epoch[-_=]?([0-9]{1,9})", re.IGNORECASE)
_STEP = re.compile(r"step[-_=]?([0-9]{1,15})", re.IGNORECASE)


def is_temporary(name: str) -> bool:
    """Whether the entry is still being written: programs rename it when it is complete."""
    return name.startswith(".") or name.endswith(_TEMPORARY)


def is_checkpoint(name: str) -> bool:
    return not is_temporary(name) and name != METRICS_FILE


def checkpoint_id(job_id: JobId, name: str) -> str:
    """The id of the checkpoint with this file name (not escaped)."""
    return f"ckpt_{sha256(f'{job_id}/{name}'.encode(errors='surrogateescape')).hexdigest()[:12]}"


def escaped(name: str) -> str:
    """The file name as text: unprintable characters, undecodable bytes and backslashes are escaped."""
    return "".join(it if it.isprintable() and it != "\\" else _escape(it) for it in name)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def epoch_of(name: str) -> int | None:
    """The number after `epoch` in the name, as in `epoch-3.pt`."""
    return _number(_EPOCH, name)


def step_of(name: str) -> int | None:
    """The number after `step` in the name, as in `epoch-3-step-1200.pt`."""
    return _number(_STEP, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.search(name)
    return None if found is None else int(found[1])
