"""What must hold before the catalog changes. Each raises Invalid or NotFound with AWS's text, where one is known."""

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

MOST_TAGS = 50
MOST_UNITS = 2**63 - 1  # AWS: a long


def must_be_free(name: str, taken: Collection[str]) -> None:
    if name in taken:
        raise Invalid("Object already exists")


def must_exist(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise NotFound(f"{kind} {name} not found.")


def must_be_disabled(kind: str, name: str, state: State) -> None:
    if state is State.ENABLED:
        raise Invalid(f"Cannot delete, {kind} {name} is ENABLED: disable it first")


def must_be_unused(name: str, users: Iterable[Collection[str]]) -> None:
    if any(name in used for used in users):
        raise Invalid("Cannot delete, found existing JobQueue relationship")


def must_be_empty(queue: str, unfinished: int) -> None:
    """AWS terminates the jobs that are left; here nobody's job ends because a queue went away."""
    if unfinished:
        raise Invalid(f"Cannot delete, JobQueue {queue} holds {unfinished} unfinished jobs: cancel or terminate them")


def must_leave_room(kind: str, known: int, most: int) -> None:
    if known >= most:
        raise Invalid(f"There can be at most {most} resources of the kind {kind}.")


def must_keep_its_kind(before: JobQueue, after: JobQueue) -> None:
    """AWS: the policy of a queue can be replaced; it cannot be taken away, nor given to one that was made without."""
    if before.policy is None and after.policy is not None:
        raise Invalid(f"JobQueue {before.name} was created without a scheduling policy, and none can be added.")
    if before.policy is not None and after.policy is None:
        raise Invalid(f"The scheduling policy of JobQueue {before.name} can be replaced, and cannot be removed.")


def must_not_overlap(shares: Sequence[ShareWeight]) -> None:
    """AWS: no two entries of a shareDistribution may name the same share: `a*` stands beside neither `a1` nor `a`."""
    # In order of their stems, whatever an entry covers stands right behind it.
    listed = sorted((it.identifier for it in shares), key=lambda it: (it.removesuffix("*"), not it.endswith("*")))
    for first, second in pairwise(listed):
        covered = second.startswith(first[:-1]) if first.endswith("*") else second == first
        if covered:
            raise Invalid(f"The share identifiers {first} and {second} of a fair-share policy overlap.")


def quantity(units: int) -> int:
    if not 0 <= units <= MOST_UNITS:
        raise Invalid(f"The quantity of a consumable resource must be between 0 and {MOST_UNITS}.")
    return units


def updated_total(total: int, operation: Operation, units: int) -> int:
    """Raises Invalid where it would be negative, or more than AWS can tell."""
    match operation:
        case Operation.SET:
            return units
        case Operation.ADD if total + units <= MOST_UNITS:
            return total + units
        case Operation.REMOVE if units <= total:
            return total - units
    raise Invalid(f"The total quantity is {total}: it would not stay between 0 and {MOST_UNITS}.")


def tagged(before: Tags, laid_over: Tags) -> Tags:
    tags = merge(before, laid_over)
    if len(tags) > MOST_TAGS:
        raise Invalid(f"A resource can have at most {MOST_TAGS} tags.")
    return tags


def environment_tagged(before: Tags, laid_over: Tags) -> Tags:
    """One of them is an order to batchq, which must not be misspelt."""
    tags = tagged(before, laid_over)
    if NETWORK_TAG in dict(tags) and network_of(tags) is None:
        raise Invalid(f"The tag {NETWORK_TAG} must be one of {', '.join(Network)}.")
    return tags


def untagged(before: Tags, keys: Collection[str]) -> Tags:
    return tuple((key, value) for key, value in before if key not in keys)
