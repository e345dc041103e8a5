"""The settings of the server on which the validation of requests depends."""

from msgspec import Struct


class Rules(Struct, frozen=True, kw_only=True):
    """Limits on requests that the server's settings define."""

    #: The least attemptDurationSeconds (AWS: 60).
    min_timeout: int
    #: The vCPUs of an UNMANAGED compute environment without unmanagedvCpus.
    vcpus: int
    #: Whether a job definition may request a privileged container, or devices of the host.
    privileged: bool
