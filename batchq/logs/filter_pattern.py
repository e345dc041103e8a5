"""AWS: CloudWatch filter patterns made of terms. Patterns on JSON or columns and regular expressions are refused.

`ERROR "not found"` requires both terms, `?ERROR ?WARN` any of them, `-DEBUG` excludes a term. Matching is
case-sensitive.
"""

import re

from msgspec import Struct

from batchq.errors import Invalid
from batchq.logs.search_budget import Budget

MAX_TERMS = 20  # every line is searched for every term

_TERM = re.compile(r'\s*(?P<sign>[?-]?)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))(?=\s|$)')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNSERVED = {
    "{": "Filter patterns on JSON are not supported by this server: use terms.",
    "[": "Filter patterns on space-delimited columns are not supported by this server: use terms.",
    "%": "Filter patterns with regular expressions are not supported by this server: use terms.",
}


class Pattern(Struct, frozen=True, kw_only=True):
    """A compiled filter pattern."""

    #: A message must contain all of these.
    every: tuple[str, ...]
    #: A message must contain at least one of these; empty: no condition.
    some: tuple[str, ...]
    #: A message must contain none of these.
    without: tuple[str, ...]

    async def matches(self, message: str, budget: Budget) -> bool:
        """Whether the message matches. May pause before each comparison, so that a long message yields the loop."""
        for term in self.every:
            if not await _contains(message, term, budget):
                return False
        for term in self.without:
            if await _contains(message, term, budget):
                return False
        for term in self.some:
            if await _contains(message, term, budget):
                return True
        return not self.some


def compiled(pattern: str) -> Pattern:
    """Parse a filter pattern. Raises Invalid if it is malformed or of an unsupported kind."""
    terms = _terms(pattern)
    if len(terms) > MAX_TERMS:
        raise Invalid(f"Invalid filter pattern: it has {len(terms)} terms, and this server serves {MAX_TERMS}.")
    return Pattern(
        every=tuple(term for sign, term in terms if not sign),
        some=tuple(term for sign, term in terms if sign == "?"),
        without=tuple(term for sign, term in terms if sign == "-"),
    )


async def _contains(message: str, term: str, budget: Budget) -> bool:
    if budget.slice_ends_by(len(message)):
        await budget.pause()
    return term in message


def _terms(pattern: str) -> list[tuple[str, str]]:
    """The terms as (sign, text). The sign is empty, `?` or `-`."""
    rest = pattern.strip()
    if rest[:1] in _UNSERVED:
        raise Invalid(_UNSERVED[rest[0]])
    terms = []
    while rest:
        found = _TERM.match(rest)
        if found is None:
            raise Invalid(f"Invalid filter pattern: {rest[:100]}")
        terms.append((found["sign"], _text(found)))
        rest = rest[found.end() :].strip()
    return terms


def _text(found: re.Match[str]) -> str:
    return found["word"] if found["phrase"] is None else _ESCAPED.sub(r"\1", found["phrase"])
