"""A connection to the engine's unix socket, and one request after another on it.

The SDK says what is asked, and judges the answer, which is of the kind that it knows. Between the two `requests` and
what is below it spend four times as much: docs/performance.md.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from socket import AF_UNIX, SOCK_STREAM, socket
from urllib.parse import urlencode

from requests import Response
from requests.exceptions import ConnectionError as NotConnected
from requests.exceptions import ReadTimeout
from urllib3.util.wait import wait_for_read

Parameters = Mapping[str, str | int | None] | None


class Line(HTTPConnection):
    """It waits for no byte longer than its patience, and is connected anew after whatever went wrong on it."""

    def __init__(self, path: str, *, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX, SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, method: str, target: str, *, body: str | bytes | None, headers: Mapping[str, str]) -> Response:
        """The whole answer. Raises what `requests` would."""
        try:
            answer = self._answer(method, target, body, headers)
            _ = answer.content
        except BaseException:
            self.close()  # or what is left of it would be taken for the next answer
            raise
        return answer

    def ask_at_last(self, target: str) -> Response:
        """An answer that is read as it comes, by whichever thread; until it is closed it has the connection."""
        try:
            answer = self._answer("GET", target, None, {})
        except BaseException:
            self.close()
            raise
        if self.sock is not None:
            self.sock.close()  # as soon as the answer is
        return answer

    def _answer(self, method: str, target: str, body: str | bytes | None, headers: Mapping[str, str]) -> Response:
        if self.sock is not None and wait_for_read(self.sock, timeout=0.0):
            self.close()  # the engine has hung up: to an engine that is back nothing was said yet
        with _as_requests_says():
            self.request(method, target, body=body, headers=headers)
            told = self.getresponse()
        answer = Response()
        answer.status_code, answer.reason, answer.url, answer.encoding = told.status, told.reason, target, "utf-8"
        answer.raw = _Body(told)
        return answer


class _Body:
    """As `requests` reads it."""

    def __init__(self, told: HTTPResponse) -> None:
        self._told = told

    def read(self, size: int) -> bytes:
        with _as_requests_says():
            read = self._told.read(size)
            if not read and self._told.length:
                raise IncompleteRead(read, self._told.length)
        return read

    def close(self) -> None:
        with suppress(OSError):
            self._told.close()


def with_parameters(target: str, parameters: Parameters) -> str:
    said = urlencode({name: it for name, it in (parameters or {}).items() if it is not None}, doseq=True)
    return f"{target}?{said}" if said else target


@contextmanager
def _as_requests_says() -> Iterator[None]:
    try:
        yield
    except TimeoutError as silence:
        raise ReadTimeout(silence) from silence
    except (OSError, HTTPException) as broken:
        raise NotConnected(broken) from broken
