"""AWS's rules for names, reasons and other texts, with AWS's error texts where they are known."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from batchq.api.batch.wire.containers import KeyValuePair
from batchq.api.batch.wire.job_definitions import JobTimeout
from batchq.domain.catalog import Tags
from batchq.errors import Invalid, NotSupported

OURS = "io.batchq."
"""The prefix of the labels of this server's containers. No name or key from a caller may begin with it."""

MAX_REASON = 1024  # characters

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def name(text: str, what: str) -> str:
    """Return a valid name. Raises Invalid; `what` is the request's member, for the error text."""
    if not _NAME.fullmatch(text):
        raise Invalid(f"{what} must be 1 to 128 letters, digits, hyphens and underscores.")
    return text


def required(text: str, what: str) -> str:
    if not text:
        raise Invalid(f"'{what}' is a required field (cannot be an empty string)")
    return text


def reason(text: str) -> str:
    if len(required(text, "reason")) > MAX_REASON:
        raise Invalid(f"'reason' must be at most {MAX_REASON} characters.")
    return text


def unserved(members: Mapping[str, object]) -> None:
    """Raise NotSupported for a member that is not empty."""
    for member, value in members.items():
        if value:
            raise NotSupported(f"{member} is not supported by this server.")


def pairs(entries: Sequence[KeyValuePair] | None) -> tuple[tuple[str, str], ...]:
    """Environment variables; of several with one name the last. AWS: an omitted value is empty. Raises Invalid.

    AWS_BATCH_* variables that batchq sets replace these when the container is created.
    """
    return tuple({variable(entry.name or ""): entry.value or "" for entry in entries or ()}.items())


def variable(text: str) -> str:
    if not text or "=" in text or text.startswith(OURS):
        raise Invalid(f"The name of an environment variable must not be empty, hold a '=' or begin with '{OURS}'.")
    return text


def tags(given: Mapping[str, str] | None) -> Tags:
    taken = tuple((given or {}).items())
    if any(key.startswith(OURS) for key, _ in taken):
        raise Invalid(f"The key of a tag must not begin with '{OURS}'.")
    return taken


def timeout(given: JobTimeout | None, least: int) -> timedelta | None:
    """None if it is omitted. AWS: at least `least` (60) seconds, without a maximum. Raises Invalid."""
    seconds = None if given is None else given.attemptDurationSeconds
    if seconds is None:
        return None
    if seconds < least:
        raise Invalid(f"attemptDurationSeconds must be at least {least}.")
    return timedelta(seconds=seconds)


def path(text: str, what: str) -> str:
    """Return an absolute path. Raises Invalid also for a colon, which separates paths where the engine expects two."""
    if not text.startswith("/") or ":" in text:
        raise Invalid(f"{what} must be an absolute path without colons.")
    return text


def once(values: Iterable[object], what: str) -> None:
    """Raise Invalid if a value appears twice; `what` describes the values, for the error text."""
    listed = list(values)
    if len(set(listed)) != len(listed):
        raise Invalid(f"{what} must not be named more than once.")
