"""What must hold before the catalog changes. Each raises Invalid or NotFound with AWS's text, where one is known."""

from collections.abc import Collection, Iterable

from batchq.domain.catalog import State, Tags
from batchq.domain.container import merge
from batchq.errors import Invalid, NotFound

MOST_TAGS = 50


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


def tagged(before: Tags, laid_over: Tags) -> Tags:
    tags = merge(before, laid_over)
    if len(tags) > MOST_TAGS:
        raise Invalid(f"A resource can have at most {MOST_TAGS} tags.")
    return tags


def untagged(before: Tags, keys: Collection[str]) -> Tags:
    return tuple((key, value) for key, value in before if key not in keys)
