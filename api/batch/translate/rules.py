"""What the settings of this server decide about requests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """`min_timeout`: least attemptDurationSeconds (AWS: 60). `vcpus`: what an environment has that names none.

    `privileged`: whether a job definition may ask for a privileged container, or for devices of the host.
    """

    min_timeout: int
    vcpus: int
    privileged: bool
