"""What the jobs of a job definition used."""

from msgspec import Struct, field


class SpreadResponse(Struct, frozen=True, kw_only=True):
    """How a figure is spread over the measured attempts."""

    median: float
    #: The 95th percentile.
    p95: float
    most: float


class DefinitionUseResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What the attempts of the newest jobs of a revision used. A figure that no attempt has is absent."""

    #: `NAME:REVISION`.
    job_definition: str
    #: How many attempts were measured.
    measured_attempts: int
    #: What the whole job requests.
    memory_mib: int = field(name="memoryMiB")
    #: In seconds.
    cpu_seconds: SpreadResponse | None = None
    #: With page cache.
    peak_memory_bytes: SpreadResponse | None = None
    #: Without page cache that was not used recently.
    working_set_bytes: SpreadResponse | None = None
    #: A smaller request of memory in a sentence; absent without one.
    advice: str | None = None
