"""Listings by name, a page at a time."""

from collections.abc import Mapping
from typing import TypeVar

from api.batch.tokens import Tokens

Listed = TypeVar("Listed")

MOST = 100


def page(
    found: Mapping[str, Listed], *, query: object, token: str | None, limit: int | None, tokens: Tokens
) -> tuple[list[Listed], dict[str, str]]:
    """The next `limit` of what was found, by name, and the nextToken to answer with, if there is more."""
    after = tokens.read(query, token) if token else ""
    rest = sorted(name for name in found if name > after)
    told = rest[: limit or MOST]
    more = {"nextToken": tokens.make(query, told[-1])} if len(rest) > len(told) else {}
    return [found[name] for name in told], more
