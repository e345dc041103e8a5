"""What the Docker SDK and the layers below it raise, turned into our errors.

An answer of the engine is judged by what was asked and by what an inspection then says, never by its status class: the
engine says 500 to a bad user name and 404 to a missing network. Where no answer came, nothing is known: a call that
timed out is carried out all the same, as soon as the engine can.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from docker.errors import APIError, DockerException, ImageNotFound, StreamParseError
from requests.exceptions import ReadTimeout, RequestException
from urllib3.exceptions import HTTPError as TransportError
from urllib3.exceptions import ReadTimeoutError

from batchq.compute.docker.start_failures import is_about_host, is_about_program
from batchq.errors import (
    ContainerGone,
    EngineError,
    EngineUnknown,
    ImageMissing,
    StartInterrupted,
    StartRefused,
)
from batchq.ports.runtime import ContainerState

LEAST_SECRET = 4  # characters: a shorter word would take half of what is said with it
LONGEST_REASON, LONGEST_TOLD, LONGEST_HEARD = 1024, 2048, 4096  # of what the engine says, a user may have said most
COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE = 127, 126
BAD_REQUEST, NOT_FOUND, CONFLICT, SERVER_ERROR, NOT_IMPLEMENTED = 400, 404, 409, 500, 501  # of HTTP

_NO_ANSWER = (DockerException, RequestException, TransportError, StreamParseError, OSError, ValueError)
# What is below the engine is down or restarting. Only such words tell this 500 from the one that a bad user name gets;
# they are longer than one word, which might be the user's.
_TROUBLE_BELOW = (
    'desc = "transport',
    "transport is closing",
    "dial unix",
    ": unavailable",
    "ttrpc: closed",
    "context deadline exceeded",
)
# An earlier start of the container got as far as containerd, and the engine has no record of it: the program may run.
_HALF_STARTED = re.compile(
    r"\btask [0-9a-f]{64}: already exists|failed to start shim: mkdir \S+/[0-9a-f]{64}: file exists"
    r"|\A\W*id already in use\W*\Z"
)
# The engine could not connect to containerd, or the container could not be created in it: the program was not reached.
_NOT_REACHED = ("while dialing", "dial unix", "failed to create", "failed to start shim", "oci runtime create failed")
_WORD = re.compile(r"[\w.-]+")
_MEMBER = r"[\w-]{0,40}(?:token|password|secret|signature|credential)[\w-]{0,40}"
_CREDENTIALS = (
    re.compile(r"(://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)(\bauthorization\"?[:=]\s*\"?)(?:(?:bearer|basic)\s+)?[^\s\"',]+"),
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[\w+/=.~-]{16,}"),
    re.compile(rf"(?i)(\b{_MEMBER}=)[^&\s\"',]+"),
    re.compile(rf"(?i)(\"{_MEMBER}\":\s*\")[^\"]+"),
)


@contextmanager
def unknown_unless_told(call: str) -> Iterator[None]:
    """Whatever of the SDK's errors has not been judged inside leaves as EngineUnknown."""
    try:
        yield
    except _NO_ANSWER as error:
        raise EngineUnknown(f"{call}: {message_of(error)}") from error


def was_silent(unknown: EngineUnknown) -> bool:
    """Whether the engine took the call and did not answer it in time."""
    return isinstance(unknown.__cause__, ReadTimeout | ReadTimeoutError)


def was_not_sent(error: BaseException | None) -> bool:
    """Whether no connection to the engine could be made for the call."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError | FileNotFoundError):
            return True
        error = error.__cause__ or error.__context__
    return False


def message_of(error: Exception) -> str:
    """The engine's own words if it spoke, else the error's; without credentials."""
    return redacted((isinstance(error, APIError) and error.explanation) or str(error))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Without credentials, without these secrets and the words they are made of, on one line of bounded length."""
    text = text[:LONGEST_HEARD]
    for pattern in _CREDENTIALS:
        text = pattern.sub(r"\1***", text)
    text = " ".join(text.split())[:LONGEST_TOLD]
    words = {word for it in secrets for word in (it, *_WORD.findall(it)) if len(word) >= LEAST_SECRET}
    if not words:
        return text
    return re.sub("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), "***", text)


def conceal(error: APIError, secrets: Iterable[str]) -> None:
    """Take secrets out of what the engine says: it quotes options of log drivers."""
    error.explanation = redacted(error.explanation or str(error), secrets)


def reason(kind: str, error: Exception) -> str:
    """An attempt's reason in the words of AWS's agent, as long as AWS lets one be."""
    return f"{kind}: Error response from daemon: {message_of(error)}"[:LONGEST_REASON]


def create_failed(error: APIError) -> EngineError:
    """What an answer to a create means when it is not about the name."""
    if isinstance(error, ImageNotFound):
        return ImageMissing(message_of(error))
    if trouble_below(error):
        return EngineUnknown(f"create: {message_of(error)}")
    # Much that only the caller could mend comes as a 500, and so do full disks: it is believed when it stays so. So is
    # a network, or a container to share one with, that is not there: it may be made again.
    certain = error.status_code is not None and error.status_code < SERVER_ERROR and error.status_code != NOT_FOUND
    host_failed = is_about_host(message_of(error))
    return StartRefused(
        reason("CannotCreateContainerError", error), certain=certain and not host_failed, host_failed=host_failed
    )


def start_failed(error: APIError, *, state: ContainerState | None, exit_code: int) -> EngineError | None:
    """What an answer to a start means, by the container as inspected after it. None: it was started for all that."""
    if state is None or state is ContainerState.GOING:
        return ContainerGone(message_of(error))
    if state is not ContainerState.CREATED:
        return None
    if is_server_error(error) and is_interrupted(message_of(error)):
        return StartInterrupted(message_of(error))
    if trouble_below(error) or error.status_code == CONFLICT:
        return EngineUnknown(f"start: {message_of(error)}")
    return StartRefused(
        reason("CannotStartContainerError", error),
        exit_code=exit_code or None,
        certain=exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE} and is_about_program(message_of(error)),
        host_failed=is_about_host(message_of(error)),
    )


def is_interrupted(text: str) -> bool:
    """Whether a start failed so that the program may have run: containerd or the shim ended in it, or the engine did.

    The engine gives the text in its answer to the start, and as the state's error afterwards.
    """
    if _HALF_STARTED.search(text):
        return True
    return reports_trouble_below(text) and not any(words in text.lower() for words in _NOT_REACHED)


def trouble_below(error: APIError) -> bool:
    """Such words may only lengthen the wait for a start, never decide that it failed."""
    return is_server_error(error) and reports_trouble_below(message_of(error))


def is_server_error(error: APIError) -> bool:
    return error.status_code is not None and error.status_code >= SERVER_ERROR


def reports_trouble_below(text: str) -> bool:
    return any(words in text.lower() for words in _TROUBLE_BELOW)
