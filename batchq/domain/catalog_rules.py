"""Checks before a change of the catalog. Each raises Invalid or NotFound, with AWS's text where it is known. Pure."""

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from batchq.domain.catalog import (
    NETWORK_TAG,
    JobQueue,
    Network,
    Operation,
    ShareWeight,
    State,
    Tags,
    network_of,
)
from batchq.domain.container import merge
from batchq.errors import Invalid, NotFound

MAX_TAGS = 50  # AWS: of one resource
MAX_UNITS = 2**63 - 1  # AWS: a long


def require_free_name(name: str, taken: Collection[str]) -> None:
    """Raises Invalid if the name is taken."""
    if name in taken:
        raise Invalid("Object already exists")


def require_existing(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises NotFound for the first name that is not known."""
    for name in names:
        if name not in known:
            raise NotFound(f"{kind} {name} not found.")


def require_disabled(kind: str, name: str, state: State) -> None:
    """Raises Invalid for a resource that is to be deleted and is ENABLED."""
    if state is State.ENABLED:
        raise Invalid(f"Cannot delete, {kind} {name} is ENABLED: disable it first")


def require_unused(name: str, users: Iterable[Collection[str]]) -> None:
    """Raises Invalid for a resource that is to be deleted and that a queue uses. `users`: the names each queue uses."""
    if any(name in used for used in users):
        raise Invalid("Cannot delete, found existing JobQueue relationship")


def require_empty(queue: str, unfinished: int) -> None:
    """Raises Invalid for a queue with unfinished jobs. AWS terminates them; batchq ends no job with its queue."""
    if unfinished:
        raise Invalid(f"Cannot delete, JobQueue {queue} holds {unfinished} unfinished jobs: cancel or terminate them")


def require_room(kind: str, known: int, most: int) -> None:
    """Raises Invalid if there are `most` resources of this kind already."""
    if known >= most:
        raise Invalid(f"There can be at most {most} resources of the kind {kind}.")


def require_same_kind(before: JobQueue, after: JobQueue) -> None:
    """AWS: the scheduling policy of a queue can be replaced. It cannot be removed, or added to a queue without one."""
    if before.policy is None and after.policy is not None:
        raise Invalid(f"JobQueue {before.name} was created without a scheduling policy, and none can be added.")
    if before.policy is not None and after.policy is None:
        raise Invalid(f"The scheduling policy of JobQueue {before.name} can be replaced, and cannot be removed.")


def require_disjoint_shares(shares: Sequence[ShareWeight]) -> None:
    """AWS: no two entries of a shareDistribution may match the same share: `a*` excludes both `a1` and `a`."""
    # Sorted by the part before `*`, what an entry covers follows it directly.
    listed = sorted((it.identifier for it in shares), key=lambda it: (it.removesuffix("*"), not it.endswith("*")))
    for first, second in pairwise(listed):
        covered = second.startswith(first[:-1]) if first.endswith("*") else second == first
        if covered:
            raise Invalid(f"The share identifiers {first} and {second} of a fair-share policy overlap.")


def valid_quantity(units: int) -> int:
    """The units, if a consumable resource can have as many. Raises Invalid otherwise."""
    if not 0 <= units <= MAX_UNITS:
        raise Invalid(f"The quantity of a consumable resource must be between 0 and {MAX_UNITS}.")
    return units


def updated_total(total: int, operation: Operation, units: int) -> int:
    """The total of a consumable resource after an update. Raises Invalid below 0 or above MOST_UNITS."""
    match operation:
        case Operation.SET:
            return units
        case Operation.ADD if total + units <= MAX_UNITS:
            return total + units
        case Operation.REMOVE if units <= total:
            return total - units
    raise Invalid(f"The total quantity is {total}: it would not stay between 0 and {MAX_UNITS}.")


def tagged(before: Tags, laid_over: Tags) -> Tags:
    """The tags with those of `laid_over` added or replaced. Raises Invalid for more than MOST_TAGS."""
    tags = merge(before, laid_over)
    if len(tags) > MAX_TAGS:
        raise Invalid(f"A resource can have at most {MAX_TAGS} tags.")
    return tags


def environment_tagged(before: Tags, laid_over: Tags) -> Tags:
    """As `tagged`, for a compute environment. Raises Invalid if NETWORK_TAG names an unknown network mode."""
    tags = tagged(before, laid_over)
    if NETWORK_TAG in dict(tags) and network_of(tags) is None:
        raise Invalid(f"The tag {NETWORK_TAG} must be one of {', '.join(Network)}.")
    return tags


def untagged(before: Tags, keys: Collection[str]) -> Tags:
    """The tags without those with these keys."""
    return tuple((key, value) for key, value in before if key not in keys)
