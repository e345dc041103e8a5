"""What is said of many jobs, one by one as it comes: a JSON object whose first member, `jobs`, is a long list."""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator

from batchq.errors import Unavailable

Said = dict[str, object]
_HEAD = re.compile(r'\s*\{\s*"jobs"\s*:\s*\[\s*')
_ONE = json.JSONDecoder()
PARTS = ", \t\r\n"
_LONGEST = 1024 * 1024  # characters that one job may take


class Answer:
    """`jobs` once, and then `rest`: what stands behind them. Raises Unavailable where it is no such answer, or cut."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._decoder = getincrementaldecoder("utf-8")()
        self._text = ""
        self.begun = False
        self.rest: Said = {}

    def jobs(self) -> Iterator[Said]:
        self._skip_head()
        self.begun = True
        while not self._text.startswith("]"):
            yield from self._those_here()
            if not self._text.startswith("]"):
                self._more()
        while self._read():
            pass
        self.rest = _object("{" + self._text[1:].lstrip().removeprefix(","))

    def _skip_head(self) -> None:
        while (head := _HEAD.match(self._text)) is None:
            self._more()
        self._text = self._text[head.end() :]

    def _those_here(self) -> Iterator[Said]:
        """Those that are here whole; what is left begins where they end."""
        at = self._next(0)
        while self._text.startswith("{", at):
            try:
                job, end = _ONE.raw_decode(self._text, at)
            except (ValueError, RecursionError):  # more of it is to come
                break
            yield job
            at = self._next(end)
        self._text = self._text[at:]

    def _next(self, at: int) -> int:
        """Where the next begins, behind what parts them."""
        while at < len(self._text) and self._text[at] in PARTS:
            at += 1
        return at

    def _more(self) -> None:
        if len(self._text) > _LONGEST or not self._read():
            raise Unavailable("the answer is not batchq's, or not whole")

    def _read(self) -> bool:
        piece = next(self._pieces, None)
        try:
            self._text += self._decoder.decode(piece or b"", final=piece is None)
        except UnicodeDecodeError:
            raise Unavailable("the answer is no text") from None
        return piece is not None


def _object(text: str) -> Said:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Unavailable("the answer is not batchq's, or not whole")
    return read
