"""The regular expressions of metrics, with google-re2: their time is linear in the length of a line.

Python's `re` would let one user stop the server with a regular expression that backtracks.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import re2

from batchq.domain.training_metrics import DEFAULT_RULES, MetricRule
from batchq.errors import Invalid

MAX_MEMORY = 256 * 1024  # bytes for one compiled expression; it also bounds the time for a line, to 0.1 s
_CACHED = 256  # compiled expressions


class Match(Protocol):
    """A match of google-re2, which has no types."""

    def group(self, number: int) -> str | None: ...


class Pattern(Protocol):
    """A compiled expression of google-re2."""

    groups: int

    def search(self, text: str) -> Match | None: ...


def patterns(rules: Sequence[MetricRule]) -> dict[str, Pattern]:
    """The compiled expressions by metric; those of DEFAULT_RULES without rules. Raises Invalid."""
    return {rule.name: _compiled(rule) for rule in rules or DEFAULT_RULES}


def _compiled(rule: MetricRule) -> Pattern:
    try:
        pattern = _compile(rule.regex)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise Invalid(f"The regular expression of metric {rule.name} is not valid in RE2: {why}.") from None
    if pattern.groups != 1:
        raise Invalid(f"The regular expression of metric {rule.name} must have exactly one group, which is the value.")
    return pattern


@lru_cache(maxsize=_CACHED)
def _compile(regex: str) -> Pattern:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    compiled: Pattern = re2.compile(regex, options)
    return compiled
