"""The group of a submission, as its tags name it. The command line reads them too, so this module imports little."""

import re
from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from batchq.domain.access.accounts import Owner
from batchq.domain.ids import GroupId
from batchq.domain.wording import counted
from batchq.errors import Invalid

GROUP_TAG = "batchq:group"  # `NAME`, or `NAME/KEY` for one of several groups of this name
SIZE_TAG = "batchq:group-size"
MAX_RUNNING_TAG = "batchq:max-running"
MAX_FAILED_TAG = "batchq:max-failed"
LIMIT_TAGS = (SIZE_TAG, MAX_RUNNING_TAG, MAX_FAILED_TAG)
MAX_NUMBER = 1_000_000  # in the tags
_NAME = re.compile(r"([A-Za-z0-9][\w-]{0,127})(?:/([\w-]{1,64}))?", re.ASCII)


class GroupTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The group of a job, and the limits that the submission requests for the group. Those of its first job apply."""

    id: GroupId
    name: str
    #: How many jobs the group will have; None: not declared.
    size: int | None = None
    #: The most jobs that are RUNNABLE, STARTING or RUNNING at the same time; None: without limit.
    max_running: int | None = None
    #: The number of failed jobs after which the others are cancelled; None: without limit.
    max_failed: int | None = None


def group_terms(tags: Iterable[tuple[str, str]], owner: Owner) -> GroupTerms | None:
    """The group that the tags of a submission name. Groups of two users are different. Raises Invalid."""
    given = dict(tags)
    limits = {tag: _number(tag, given[tag]) for tag in LIMIT_TAGS if tag in given}
    if GROUP_TAG not in given:
        if limits:
            raise Invalid(f"The tags {', '.join(LIMIT_TAGS)} require the tag {GROUP_TAG}.")
        return None
    named = _NAME.fullmatch(given[GROUP_TAG])
    if named is None:
        raise Invalid(
            f"The tag {GROUP_TAG} must be a name of up to 128 letters, digits, hyphens and underscores, or NAME/KEY."
        )
    digest = sha256("\n".join((owner.account, owner.user, given[GROUP_TAG])).encode()).hexdigest()
    return GroupTerms(
        id=GroupId(f"g-{digest[:20]}"),
        name=named[1],
        size=limits.get(SIZE_TAG),
        max_running=limits.get(MAX_RUNNING_TAG),
        max_failed=limits.get(MAX_FAILED_TAG),
    )


def check_terms(terms: GroupTerms, given: GroupTerms) -> None:
    """Raise Invalid if a submission gives a number that its group does not have."""
    numbers = [
        (SIZE_TAG, "declared size", "", given.size, terms.size),
        (MAX_RUNNING_TAG, "limit", "running ", given.max_running, terms.max_running),
        (MAX_FAILED_TAG, "limit", "failed ", given.max_failed, terms.max_failed),
    ]
    for tag, noun, kind, number, existing in numbers:
        if number is not None and number != existing:
            what = f"no {noun} of {kind}jobs" if existing is None else f"a {noun} of {counted(existing, f'{kind}job')}"
            raise Invalid(
                f"Group {terms.name} has {what}, as its first job requested. "
                f"Leave out the tag {tag}, or name another group."
            )


def _number(tag: str, value: str) -> int:
    if not (
        value.isascii() and value.isdigit() and len(value) <= len(str(MAX_NUMBER)) and 0 < int(value) <= MAX_NUMBER
    ):
        raise Invalid(f"The tag {tag} must be a whole number from 1 to {MAX_NUMBER}.")
    return int(value)
