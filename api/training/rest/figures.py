"""Metrics, progress and cost of training jobs in responses, and the texts of times, durations and sizes."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from batchq.api.http.answers import amount
from batchq.domain.cost import Cost, limit_cost
from batchq.domain.job import JobSpec
from batchq.domain.training import EPOCH, STEP, MetricValue
from batchq.domain.training_jobs import TrainingJobView

_LENGTH = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_MEMORY = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([MGT])i?B?", re.ASCII)
_STEP = 1024
_MIB = {"M": 1, "G": 1024, "T": 1024**2}
Metrics = Mapping[str, MetricValue]
FinalMetrics = dict[str, float | int | str | None]
_ALWAYS = (EPOCH, STEP, "loss", "accuracy")  # the metrics that a job without rules of its own has
_WHOLE = frozenset({EPOCH, STEP})


class CostBreakdown(Struct, frozen=True, kw_only=True, rename="camel"):
    """The parts of a cost."""

    gpu_cost: float
    #: vCPUs and memory.
    compute_cost: float
    #: Stored checkpoints.
    storage_cost: float


class CostSummary(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job has cost."""

    #: ISO 4217.
    currency: str
    total_cost: float
    cost_breakdown: CostBreakdown
    #: How much more the job would have cost if it had done all its work; null: not known.
    estimated_savings: float | None


class Costs(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a job has cost so far, and will cost in all."""

    #: ISO 4217.
    currency: str
    current_cost: float
    #: What the job would cost if it did all its work; null: not known.
    estimated_total_cost: float | None
    cost_breakdown: CostBreakdown


class EstimatedCost(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one attempt costs that runs for the whole `maxDuration`."""

    #: ISO 4217.
    currency: str
    gpu_cost: float
    #: vCPUs and memory.
    compute_cost: float
    total_cost: float


class TrainingProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a job has come, by its metrics and the `progress` of its creation; null: not known."""

    current_epoch: int | None
    total_epochs: int | None
    current_step: int | None
    total_steps: int | None
    #: From 0 to 100.
    percent_complete: float | None
    #: As `1h 05m`, at the average speed until now; null also for a job that has ended.
    estimated_time_remaining: str | None


def cost_summary(cost: Cost) -> CostSummary:
    savings = cost.estimated_savings
    return CostSummary(
        currency=cost.currency,
        total_cost=amount(cost.total),
        cost_breakdown=_breakdown(cost),
        estimated_savings=None if savings is None else amount(savings),
    )


def costs(cost: Cost) -> Costs:
    total = cost.estimated_total
    return Costs(
        currency=cost.currency,
        current_cost=amount(cost.total),
        estimated_total_cost=None if total is None else amount(total),
        cost_breakdown=_breakdown(cost),
    )


def estimated_cost(spec: JobSpec) -> EstimatedCost | None:
    """None without prices, and for a job without a time limit."""
    amounts = limit_cost(spec)
    if spec.prices is None or amounts is None:
        return None
    return EstimatedCost(
        currency=spec.prices.currency,
        gpu_cost=amount(amounts.gpu),
        compute_cost=amount(amounts.compute),
        total_cost=amount(amounts.total),
    )


def final_metrics(metrics: Metrics, duration: timedelta) -> FinalMetrics:
    """`finalLoss` and others: null for a usual metric that the job has not reported."""
    names = dict.fromkeys((*_ALWAYS, *metrics))
    values = {f"final{name[:1].upper()}{name[1:]}": _value(name, metrics) for name in names}
    return values | {"trainingDuration": length_text(duration)}


def current_metrics(metrics: Metrics) -> dict[str, float | int | None]:
    return {name: _value(name, metrics) for name in metrics}


def progress(view: TrainingJobView, metrics: Metrics, now: datetime) -> TrainingProgress:
    plan, remaining = view.job.spec.plan, view.time_left(metrics, now)
    done = plan.fraction(metrics)
    epoch, step = metrics.get(EPOCH), metrics.get(STEP)
    return TrainingProgress(
        current_epoch=None if epoch is None else int(epoch.value),
        total_epochs=plan.total_epochs,
        current_step=None if step is None else int(step.value),
        total_steps=plan.total_steps,
        percent_complete=None if done is None else round(float(done) * 100, 1),
        estimated_time_remaining=None if remaining is None else length_text(remaining),
    )


def _value(name: str, metrics: Metrics) -> float | int | None:
    if name not in metrics:
        return None
    value = metrics[name].value
    return int(value) if name in _WHOLE and value.is_integer() else value


def _breakdown(cost: Cost) -> CostBreakdown:
    return CostBreakdown(
        gpu_cost=amount(cost.gpu), compute_cost=amount(cost.compute), storage_cost=amount(cost.storage)
    )


def length_text(length: timedelta) -> str:
    """`2h 15m`, `45m`, `0m`: whole minutes."""
    hours, minutes = divmod(int(length.total_seconds()) // 60, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m"


def parse_length(text: str) -> timedelta | None:
    """Parse `6h`, `90m`, `1h30m`, `2d` or `45s`; None for another text."""
    parts = _LENGTH.fullmatch(text)
    if parts is None or not text:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in parts.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_memory(text: str) -> int | None:
    """Parse `8GB`, `8GiB` or `512MB` into MiB, in powers of 1024; None for another text, and for less than 1 MiB."""
    parts = _MEMORY.fullmatch(text)
    return None if parts is None else int(float(parts[1]) * _MIB[parts[2]]) or None


def memory_text(mib: int) -> str:
    """`8GB`, or `512MB` for an amount that is not whole GiB."""
    return f"{mib // 1024}GB" if mib % 1024 == 0 else f"{mib}MB"


def size_text(size_bytes: int) -> str:
    """`512 B`, `1.4 MB`: in the largest unit, in powers of 1024."""
    size, unit = float(size_bytes), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < _STEP:
            break
        size, unit = size / _STEP, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
