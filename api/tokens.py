"""nextToken: where a listing goes on. Opaque, and of use only to the query it was given for.

The position is enciphered: a job's place among all jobs would tell how many others have.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest

from batchq.errors import Invalid

_DIGEST, _SALT, _BLOCK = 16, 16, 64
_LONGEST = 1024


class Tokens:
    """`secret` is 1 to 64 bytes; tokens made with another are refused."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, query: object, position: str) -> str:
        """`query` is anything whose repr tells it from every other query."""
        digest = self._digest(query, position)
        return urlsafe_b64encode(digest + self._veiled(digest, position.encode())).decode()

    def read(self, query: object, token: str) -> str:
        """The position it was made with. Raises Invalid when it was not made here for this query."""
        raw = _decoded(token)
        position = self._veiled(raw[:_DIGEST], raw[_DIGEST:]).decode(errors="replace")
        if not compare_digest(raw[:_DIGEST], self._digest(query, position)):
            raise Invalid("nextToken is not valid.")
        return position

    def _veiled(self, digest: bytes, text: bytes) -> bytes:
        """Done twice it is undone. The digest is of the text, so no two texts are veiled alike."""
        blocks = range(0, len(text), _BLOCK)
        veil = b"".join(
            blake2b(digest, key=self._secret, salt=at.to_bytes(_SALT), person=b"veil").digest() for at in blocks
        )
        return bytes(a ^ b for a, b in zip(text, veil, strict=False))

    def _digest(self, query: object, position: str) -> bytes:
        return blake2b(f"{query!r}\0{position}".encode(), key=self._secret, digest_size=_DIGEST).digest()


def _decoded(token: str) -> bytes:
    if len(token) > _LONGEST:
        return b""
    try:
        return urlsafe_b64decode(token)
    except (binascii.Error, ValueError):
        return b""
