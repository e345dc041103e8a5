"""Training jobs: the checkpoints, metrics and plan that the tags of a submission declare, and what follows. Pure.

AWS has no members for them. A rule of a metric is a regular expression whose group 1 is the value; the last match in
the log counts. `services.training` compiles and applies the rules.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
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
        paths = (
            *(mount.container_path for mount in container.mounts),
            *(tmpfs.container_path for tmpfs in container.tmpfs),
        )
        if any(normpath(path) == MOUNT_POINT for path in paths):
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
    least, most = (int(duration.total_seconds()) for duration in (MIN_CHECKPOINT_TIMEOUT, MAX_CHECKPOINT_TIMEOUT))
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
    return "".join(
        text if text.isprintable() and text != "\\" else text.encode("unicode_escape").decode() for text in name
    )


def epoch_of(name: str) -> int | None:
    """The number after `epoch` in the name, as in `epoch-3.pt`."""
    return _number(_EPOCH, name)


def step_of(name: str) -> int | None:
    """The number after `step` in the name, as in `epoch-3-step-1200.pt`."""
    return _number(_STEP, name)


def _number(pattern: re.Pattern[str], name: str) -> int | None:
    found = pattern.search(name)
    return None if found is None else int(found[1])


Tags = tuple[tuple[str, str], ...]

METRIC_TAG = "batchq:metric:"  # followed by the name of the metric; the value of the tag is the regular expression
TOTAL_EPOCHS_TAG = "batchq:total-epochs"
TOTAL_STEPS_TAG = "batchq:total-steps"
MAX_RULES = 40  # SageMaker's maximum
MAX_NAME = 255  # characters, as in SageMaker
MAX_REGEX = 500  # characters, as in SageMaker
MAX_TOTAL = 10**12  # epochs or steps
EPOCH, STEP = "epoch", "step"  # the metrics that show progress
LEAST_FRACTION = 1e-6  # of the work; an estimate from less would be arbitrary


class MetricRule(Struct, frozen=True, kw_only=True):
    """How one metric is found in the lines of a log."""

    #: From 1 to MAX_NAME characters; unique within a job.
    name: str
    #: In RE2 syntax, from 1 to MAX_REGEX characters. Group 1 is the value.
    regex: str


class MetricValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last value of a metric."""

    #: Finite.
    value: float
    #: When it was written; None: not known.
    at: datetime | None = None


class TrainingPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much work a training job will do, as its submitter states it. None: not stated."""

    total_epochs: int | None = None
    total_steps: int | None = None

    def fraction(self, metrics: Mapping[str, MetricValue]) -> Decimal | None:
        """The part of the work that is done, at least LEAST_FRACTION and at most 1; None if it is not known.

        Steps come before epochs, because they are finer.
        """
        for total, name in ((self.total_steps, STEP), (self.total_epochs, EPOCH)):
            if total is not None and name in metrics:
                done = metrics[name].value / total
                return Decimal(min(done, 1.0)) if done >= LEAST_FRACTION else None
        return None


#: The rules of a job without rules of its own: `name=number`, `name: number` or `name number`.
DEFAULT_RULES = tuple(
    MetricRule(name=name, regex=rf"(?i)\b{name}\s*[=: ]\s*([-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?)")
    for name in ("loss", "accuracy", EPOCH, STEP)
)


def metric_value(text: str | float, at: datetime | None = None) -> MetricValue | None:
    """The value of a text or a number; None unless it is a finite number."""
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return None
    return MetricValue(value=value, at=at) if math.isfinite(value) else None


def metric_rules(tags: Tags) -> tuple[MetricRule, ...]:
    """The rules that the tags of a submission make, by name. They are not checked."""
    rules = [MetricRule(name=key[len(METRIC_TAG) :], regex=value) for key, value in tags if key.startswith(METRIC_TAG)]
    return tuple(sorted(rules, key=lambda rule: rule.name))


def check_rules(rules: Sequence[MetricRule]) -> None:
    """Check the number of rules and the lengths of names and regexes. Raises Invalid."""
    if len(rules) > MAX_RULES:
        raise Invalid(f"A job can have at most {MAX_RULES} metrics.")
    for rule in rules:
        if not 1 <= len(rule.name) <= MAX_NAME:
            raise Invalid(f"The name of a metric must have 1 to {MAX_NAME} characters.")
        if not 1 <= len(rule.regex) <= MAX_REGEX:
            raise Invalid(f"The regular expression of metric {rule.name} must have 1 to {MAX_REGEX} characters.")


def training_plan(tags: Tags) -> TrainingPlan:
    """The plan that the tags of a submission make. Raises Invalid."""
    totals = {key: _total(key, text) for key, text in tags if key in {TOTAL_EPOCHS_TAG, TOTAL_STEPS_TAG}}
    return TrainingPlan(total_epochs=totals.get(TOTAL_EPOCHS_TAG), total_steps=totals.get(TOTAL_STEPS_TAG))


def _total(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_TOTAL)) and 1 <= int(text) <= MAX_TOTAL):
        raise Invalid(f"The tag {key} must be a whole number from 1 to {MAX_TOTAL}.")
    return int(text)
