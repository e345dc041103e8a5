"""Chooses the GPUs of a container. For a request by number, the engine would give every container the first ones."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from batchq.compute.docker.create_request import GPUS
from batchq.compute.docker.inspection import labels_of, member, state_of
from batchq.errors import EngineUnknown
from batchq.ports.runtime import ContainerState

ENDED_STATES = frozenset({ContainerState.EXITED, ContainerState.GOING})


def gpu_count() -> int:
    """The number of NVIDIA GPUs of this machine."""
    return sum(1 for _ in Path("/dev").glob("nvidia[0-9]*"))


def gpu_usage(rows: object) -> Mapping[str, int]:
    """The number of containers that hold each GPU, from the labels in the engine's list of containers."""
    if not isinstance(rows, list):
        raise EngineUnknown("invalid engine response: the list of containers is not a list")
    labels = (labels_of(row, "Labels") for row in rows if state_of(member(row, "State", of=object)) not in ENDED_STATES)
    return Counter(gpu for it in labels for gpu in it.get(GPUS, "").split(",") if gpu)


def choose_gpus(number: int, *, of: int, usage: Mapping[str, int]) -> tuple[str, ...]:
    """Choose the GPUs that the fewest containers hold, lowest ids first.

    `of` is the number of existing GPUs. Placement only chooses a job for which GPUs are free, but does not see the
    containers of other servers.
    """
    by_use = sorted(range(max(of, number)), key=lambda it: usage.get(str(it), 0))
    return tuple(str(it) for it in sorted(by_use[:number]))
