"""What the settings of this server decide about requests."""

from msgspec import Struct


class Rules(Struct, frozen=True, kw_only=True):
    """`min_timeout`: least attemptDurationSeconds (AWS: 60). `vcpus`: what an environment has that names none.

    `privileged`: whether a job definition may ask for a privileged container, or for devices of the host.
    """

    min_timeout: int
    vcpus: int
    privileged: bool
