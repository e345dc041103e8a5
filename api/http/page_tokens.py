"""Pages of lists, and page tokens: the `nextToken` of a list operation, encrypted and bound to its query.

A token holds the position of the next page. The position is encrypted because it counts the jobs of other accounts.
A token is `nonce + ciphertext + tag`. The ciphertext is the position XOR SHAKE-256 of a secret and the nonce; the tag
is an HMAC-SHA256 of the query, the nonce and the ciphertext, with another secret. Decision 0096.
"""

import binascii
import hmac
import json
import secrets
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import shake_256
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from batchq.domain.job_selection import JobSelection
from batchq.errors import Invalid
from batchq.ports.job_search import SearchPosition

TokenQuery = Sequence[str | int | Sequence[str] | None]
"""The operation's name and each parameter that selects what it lists. Two queries with equal values share tokens."""

NONCE_LENGTH = 16  # bytes; a nonce is random, and two tokens of one server never share one
TAG_LENGTH = 32  # bytes
MAX_LENGTH = 1024  # characters of a token
MAX_ENTRIES = 100  # on a page of a list that is sorted by name

Name = TypeVar("Name", bound=str)
Listed = TypeVar("Listed")


class PageTokens:
    """Makes and reads page tokens."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes. Tokens that were made with another key are not valid."""
        self._mask_key = hmac.digest(key, b"page token: mask", "sha256")
        self._tag_key = hmac.digest(key, b"page token: tag", "sha256")

    def make(self, query: TokenQuery, position: str) -> str:
        """Return a token for the next page of `query`, from which `read` returns `position`."""
        nonce = secrets.token_bytes(NONCE_LENGTH)
        sealed = nonce + self._masked(nonce, position.encode())
        return urlsafe_b64encode(sealed + self._tag(query, sealed)).decode()

    def read(self, query: TokenQuery, token: str) -> str:
        """Return the position in `token`. Raises Invalid unless `make` returned the token for this query."""
        if len(token) > MAX_LENGTH:
            raise _invalid()
        try:
            raw = b64decode(token, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _invalid() from None
        sealed, tag = raw[:-TAG_LENGTH], raw[-TAG_LENGTH:]
        if urlsafe_b64encode(raw).decode() != token:  # another spelling of the same bytes
            raise _invalid()
        if len(sealed) < NONCE_LENGTH or not hmac.compare_digest(tag, self._tag(query, sealed)):
            raise _invalid()
        return self._masked(sealed[:NONCE_LENGTH], sealed[NONCE_LENGTH:]).decode()

    def _masked(self, nonce: bytes, text: bytes) -> bytes:
        """The text XOR a mask that only the key and the nonce determine. The same call removes the mask."""
        mask = shake_256(self._mask_key + nonce).digest(len(text))
        return bytes(byte ^ other for byte, other in zip(text, mask, strict=True))

    def _tag(self, query: TokenQuery, sealed: bytes) -> bytes:
        # The length separates the query from what follows it.
        associated = json.dumps(query).encode()
        return hmac.digest(self._tag_key, len(associated).to_bytes(8) + associated + sealed, "sha256")


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
    return f"{position.at},{position.sequence}"


def parse_position(text: str) -> SearchPosition:
    """Parse the text of `position_text`."""
    at, order = text.split(",")
    return SearchPosition(int(at), int(order))


class SearchToken(Struct, frozen=True):
    """The page tokens of one search for jobs."""

    tokens: PageTokens
    query: TokenQuery

    def read(self, text: str | None) -> SearchPosition | None:
        """Where the page of the token begins; None without a token. Raises Invalid for a token of another search."""
        return None if text is None else parse_position(self.tokens.read(self.query, text))

    def make(self, position: SearchPosition | None) -> str | None:
        """The token of the page that begins there; None: no further job matches."""
        return None if position is None else self.tokens.make(self.query, position_text(position))


def _invalid() -> Invalid:
    return Invalid("nextToken is not valid.")
