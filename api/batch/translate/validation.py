"""What AWS asks of names, reasons and the like, with its texts where it has one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from batchq.api.batch.wire.containers import KeyValuePair
from batchq.api.batch.wire.job_definitions import JobTimeout
from batchq.domain.catalog import Tags
from batchq.errors import Invalid, NotSupported

OURS = "io.batchq."
"""Labels of this server's containers begin so; nothing of a caller's may."""

LONGEST_REASON = 1024

_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def name(text: str, what: str) -> str:
    """`what` is the member it came in."""
    if not _NAME.fullmatch(text):
        raise Invalid(f"{what} must be 1 to 128 letters, digits, hyphens and underscores.")
    return text


def required(text: str, what: str) -> str:
    if not text:
        raise Invalid(f"'{what}' is a required field (cannot be an empty string)")
    return text


def reason(text: str) -> str:
    if len(required(text, "reason")) > LONGEST_REASON:
        raise Invalid(f"'reason' must be at most {LONGEST_REASON} characters.")
    return text


def unserved(members: Mapping[str, object]) -> None:
    """Refuse what this server does not do, by name. An empty member is as good as none."""
    for member, value in members.items():
        if value:
            raise NotSupported(f"{member} is not supported by this server.")


def pairs(entries: Sequence[KeyValuePair] | None) -> tuple[tuple[str, str], ...]:
    """Environment variables, the last of a name. AWS: a value left out is empty; AWS_BATCH_* are lost later."""
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
    """AWS: at least `least` (60) seconds, and no most."""
    seconds = None if given is None else given.attemptDurationSeconds
    if seconds is None:
        return None
    if seconds < least:
        raise Invalid(f"attemptDurationSeconds must be at least {least}.")
    return timedelta(seconds=seconds)


def path(text: str, what: str) -> str:
    """An absolute path. A colon would part it from another where the engine takes both as one text."""
    if not text.startswith("/") or ":" in text:
        raise Invalid(f"{what} must be an absolute path without colons.")
    return text


def once(values: Iterable[object], what: str) -> None:
    listed = list(values)
    if len(set(listed)) != len(listed):
        raise Invalid(f"{what} must not be named more than once.")
