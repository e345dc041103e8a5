"""Metrics of training jobs: which values a job reports, and how far it has come. Pure.

A rule is a regular expression whose group 1 is the value; the last match in the log counts. Tags of SubmitJob make the
rules, because AWS has no member for them. `services.training` compiles and applies them.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from batchq.errors import Invalid

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
    """The rules that the tags of a submission make, by name. Raises Invalid; the syntax of a regex is not checked."""
    rules = [MetricRule(name=key[len(METRIC_TAG) :], regex=value) for key, value in tags if key.startswith(METRIC_TAG)]
    check_rules(rules)
    return tuple(sorted(rules, key=lambda it: it.name))


def check_rules(rules: list[MetricRule]) -> None:
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
    given = dict(tags)
    return TrainingPlan(
        total_epochs=_total(given, TOTAL_EPOCHS_TAG),
        total_steps=_total(given, TOTAL_STEPS_TAG),
    )


def _total(tags: Mapping[str, str], key: str) -> int | None:
    text = tags.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:20]) <= MAX_TOTAL:
        raise Invalid(f"The tag {key} must be a whole number from 1 to {MAX_TOTAL}.")
    return int(text)
