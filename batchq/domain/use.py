"""What a container used, as the kernel counted it. A figure that was not measured is None, never 0. Pure.

Decision 0095.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

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
