"""What a container used, as the kernel counted it. A figure that was not measured is None, never 0. Pure.

Decision 0095.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil

from msgspec import Struct

from batchq.domain.wording import bytes_words, cpus_words, memory_words, peak_words, seconds_words

NOT_MEASURED = "not measured"
MIB = 2**20
MEASURED_JOBS = 100  # the newest jobs of a job definition whose use is shown
MIN_MEASURED = 20  # attempts, for advice
ADVISED_MARGIN = 1.25  # of the advised memory over the 95th percentile
ADVISED_STEP = 64  # MiB

#: The members that are numbers. All of them only grow while a container runs.
FIGURES = ("cpu_seconds", "peak_memory", "working_set", "bytes_read", "bytes_written")


class Use(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one container, or several together, used until the last sample."""

    #: When the last sample was taken.
    sampled_at: datetime
    #: The CPU time of all processes, user and system.
    cpu_seconds: float | None = None
    #: The most memory in bytes, with page cache.
    peak_memory: int | None = None
    #: The most memory in bytes, without page cache that was not used recently; the largest of all samples.
    working_set: int | None = None
    #: Bytes read from block devices.
    bytes_read: int | None = None
    #: Bytes written to block devices.
    bytes_written: int | None = None


def with_sample(earlier: Use | None, sample: Use) -> Use:
    """The use after one more sample of the same container."""
    if earlier is None:
        return sample
    pairs = ((name, getattr(earlier, name), getattr(sample, name)) for name in FIGURES)
    figures = {
        name: before if now is None or (before is not None and before > now) else now for name, before, now in pairs
    }
    return Use(sampled_at=max(earlier.sampled_at, sample.sampled_at), **figures)


def total_use(uses: Sequence[Use | None]) -> Use | None:
    """The use of several containers: the sum of each figure. None if one of them was not measured, or without any.

    The sum of peaks is at least the peak of the sum.
    """
    measured = [use for use in uses if use is not None]
    if not measured or len(measured) < len(uses):
        return None
    if len(measured) == 1:
        return measured[0]
    values = {name: [getattr(use, name) for use in measured] for name in FIGURES}
    sums = {name: None if None in numbers else sum(numbers) for name, numbers in values.items()}
    return Use(sampled_at=max(use.sampled_at for use in measured), **sums)


class Spread(Struct, frozen=True):
    """How a figure is spread over several attempts."""

    median: float
    #: The 95th percentile.
    p95: float
    most: float


def spread(numbers: Iterable[float | None]) -> Spread | None:
    """The spread of the numbers that were measured; None without any."""
    measured = sorted(number for number in numbers if number is not None)
    if not measured:
        return None
    last = len(measured) - 1
    return Spread(measured[last // 2], measured[ceil(0.95 * last)], measured[-1])


class DefinitionUse(Struct, frozen=True, kw_only=True):
    """What the attempts of the newest jobs of a job definition used."""

    #: How many attempts were measured.
    attempts: int
    #: The memory that the definition requests.
    memory_mib: int
    #: None: not measured, as for the other figures.
    cpu_seconds: Spread | None
    #: In bytes.
    peak_memory: Spread | None
    #: In bytes.
    working_set: Spread | None
    #: See `memory_advice`.
    advice: str | None


def definition_use(uses: Iterable[Use | None], memory_mib: int) -> DefinitionUse:
    """`uses`: of the attempts of the newest MEASURED_JOBS jobs; None: not measured."""
    measured = [use for use in uses if use is not None]
    return DefinitionUse(
        attempts=len(measured),
        memory_mib=memory_mib,
        cpu_seconds=spread(use.cpu_seconds for use in measured),
        peak_memory=spread(use.peak_memory for use in measured),
        working_set=spread(use.working_set for use in measured),
        advice=memory_advice(measured, memory_mib),
    )


def memory_advice(uses: Sequence[Use], memory_mib: int) -> str | None:
    """A smaller request of memory, if the measured working sets are far below the present one; else None."""
    sizes = [use.working_set for use in uses if use.working_set is not None]
    found = spread(sizes)
    if found is None or len(sizes) < MIN_MEASURED or found.p95 > memory_mib * MIB / 2:
        return None
    enough = ceil(found.p95 * ADVISED_MARGIN / MIB / ADVISED_STEP) * ADVISED_STEP
    if enough >= memory_mib:
        return None
    used = f"Of {len(sizes)} measured attempts 95 % used at most {bytes_words(int(found.p95))}"
    return f"{used} of {memory_words(memory_mib)}, without page cache: {memory_words(enough)} would be enough."


def main_use_words(use: Use, started_at: datetime, *, vcpus: float, memory_mib: int) -> list[str]:
    """As `1.7 of 2 vCPUs` and `peak 812 of 1,024 MiB`, without what was not measured."""
    cpus = "" if use.cpu_seconds is None else cpus_words(use.cpu_seconds, use.sampled_at - started_at, vcpus)
    peak = "" if use.peak_memory is None else peak_words(use.peak_memory, memory_mib)
    return [part for part in (cpus, peak) if part]


def use_words(
    use: Use | None, started_at: datetime, stopped_at: datetime | None, *, vcpus: float, memory_mib: int
) -> str:
    """What an attempt or a container used, beside what it requests, as of the last sample. None: not measured."""
    if use is None:
        return NOT_MEASURED
    texts = (("working set", use.working_set), ("read", use.bytes_read), ("written", use.bytes_written))
    parts = [] if use.cpu_seconds is None else [f"{seconds_words(use.cpu_seconds)} of CPU time"]
    parts += main_use_words(use, started_at, vcpus=vcpus, memory_mib=memory_mib)
    parts += [f"{name} {bytes_words(size)}" for name, size in texts if size is not None]
    if stopped_at is not None:
        before_end = max(0.0, (stopped_at - use.sampled_at).total_seconds())
        parts.append(f"as of {seconds_words(before_end)} before the end")
    return "; ".join(parts)
