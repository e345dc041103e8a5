"""Pages of lists, and page tokens: the `nextToken` of a list operation, encrypted and bound to its query.

A token holds the position of the next page. The position is encrypted because it counts the jobs of other accounts.
"""

import binascii
import json
import secrets
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from batchq.domain.job_selection import JobSelection
from batchq.errors import Invalid
from batchq.ports.job_search import SearchPosition

TokenQuery = Sequence[str | int | Sequence[str] | None]
"""The operation's name and each parameter that selects what it lists. Two queries with equal values share tokens."""

NONCE_LENGTH = 12  # bytes; NIST SP 800-38D recommends 96 bits
MAX_LENGTH = 1024  # characters of a token
MAX_ENTRIES = 100  # on a page of a list that is sorted by name

Name = TypeVar("Name", bound=str)
Listed = TypeVar("Listed")


class PageTokens:
    """Makes and reads page tokens with AES-GCM; the query is the associated data."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes. Tokens that were made with another key are not valid."""
        self._cipher = AESGCM(key)

    def make(self, query: TokenQuery, position: str) -> str:
        """Return a token for the next page of `query`, from which `read` returns `position`."""
        nonce = secrets.token_bytes(NONCE_LENGTH)
        sealed = self._cipher.encrypt(nonce, position.encode(), _associated(query))
        return urlsafe_b64encode(nonce + sealed).decode()

    def read(self, query: TokenQuery, token: str) -> str:
        """Return the position in `token`. Raises Invalid unless `make` returned the token for this query."""
        if len(token) > MAX_LENGTH:
            raise _invalid()
        try:
            raw = b64decode(token, altchars=b"-_", validate=True)
            return self._cipher.decrypt(raw[:NONCE_LENGTH], raw[NONCE_LENGTH:], _associated(query)).decode()
        except (binascii.Error, ValueError, InvalidTag):
            raise _invalid() from None


class Paged(Protocol):
    """A request for a page of a list."""

    @property
    def maxResults(self) -> int | None: ...  # noqa: N802 - as AWS spells it

    @property
    def nextToken(self) -> str | None: ...  # noqa: N802 - as AWS spells it


def page_of_entries(
    entries: Mapping[Name, Listed], body: Paged, *, query: TokenQuery, tokens: PageTokens
) -> tuple[list[Listed], dict[str, str]]:
    """The requested page of `entries`, sorted by name, and the `nextToken` member: empty on the last page.

    Raises Invalid for a token of another query.
    """
    after = tokens.read(query, body.nextToken) if body.nextToken else ""
    rest = sorted(name for name in entries if name > after)
    names = rest[: body.maxResults or MAX_ENTRIES]
    more = {"nextToken": tokens.make(query, names[-1])} if len(rest) > len(names) else {}
    return [entries[name] for name in names], more


def selection_text(selection: JobSelection) -> str:
    """The selection as a part of a TokenQuery: equal selections have equal texts, in every process."""
    return msgspec.json.encode(selection, order="deterministic").decode()


def position_text(position: SearchPosition) -> str:
    """The position as it is stored in a page token."""
    return f"{position.at},{position.order}"


def parse_position(text: str) -> SearchPosition:
    """Parse the text of `position_text`."""
    at, order = text.split(",")
    return SearchPosition(int(at), int(order))


def _associated(query: TokenQuery) -> bytes:
    return json.dumps(query).encode()


def _invalid() -> Invalid:
    return Invalid("nextToken is not valid.")
