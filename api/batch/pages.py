"""Pages of lists that are sorted by name."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from batchq.api.page_tokens import PageTokens, TokenQuery

Name = TypeVar("Name", bound=str)
Listed = TypeVar("Listed")

MOST = 100  # entries on a page


class Paged(Protocol):
    """A request for a page of a list."""

    @property
    def maxResults(self) -> int | None: ...  # noqa: N802 - as AWS spells it

    @property
    def nextToken(self) -> str | None: ...  # noqa: N802 - as AWS spells it


def page(
    found: Mapping[Name, Listed], given: Paged, *, query: TokenQuery, tokens: PageTokens
) -> tuple[list[Listed], dict[str, str]]:
    """The requested page of `found`, sorted by name, and the `nextToken` member: empty on the last page.

    Raises Invalid for a token of another query.
    """
    after = tokens.read(query, given.nextToken) if given.nextToken else ""
    rest = sorted(name for name in found if name > after)
    told = rest[: given.maxResults or MOST]
    more = {"nextToken": tokens.make(query, told[-1])} if len(rest) > len(told) else {}
    return [found[name] for name in told], more
