"""CloudWatch's filter patterns, as far as they are terms. Not those on JSON, on columns, or regular expressions.

`ERROR "not found"` is both, `?ERROR ?WARN` is any of them, `-DEBUG` is without; all of it with regard to case.
"""

import re
from collections.abc import Callable

from batchq.errors import Invalid

Matches = Callable[[str], bool]

_TERM = re.compile(r'\s*(?P<sign>[?-]?)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))(?=\s|$)')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNSERVED = {
    "{": "Filter patterns on JSON are not supported by this server: use terms.",
    "[": "Filter patterns on space-delimited columns are not supported by this server: use terms.",
    "%": "Filter patterns with regular expressions are not supported by this server: use terms.",
}


def compiled(pattern: str) -> Matches:
    """Raises Invalid for a pattern that is none, or of a kind that is not served."""
    terms = _terms(pattern)
    every = tuple(term for sign, term in terms if not sign)
    some = tuple(term for sign, term in terms if sign == "?")
    none = tuple(term for sign, term in terms if sign == "-")

    def matches(message: str) -> bool:
        return (
            all(term in message for term in every)
            and (not some or any(term in message for term in some))
            and not any(term in message for term in none)
        )

    return matches


def _terms(pattern: str) -> list[tuple[str, str]]:
    """Each with its sign: none, `?` or `-`."""
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
