"""Translates errors of the Docker SDK and of the layers below it into batchq's errors.

The meaning of an error response depends on the request and on a later inspection, not on its status class alone: the
engine replies 500 to an invalid user name and 404 to a missing network. Without a reply the outcome is unknown: the
engine still executes a call that timed out, as soon as it can.

The message of a failed start is about the program, about the host, or neither. The exit code is not enough: Docker sets
127 for every message with "no such file or directory", such as for a missing cgroup. Each layer of the runtime adds a
prefix of its own. The prefixes are removed, and the cause is matched at its beginning: the values of a job (command,
user, mounts, devices, log options) only appear behind a fixed text of the layer that reports them, so a job cannot
produce these messages.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from docker.errors import APIError, DockerException, ImageNotFound, StreamParseError
from requests.exceptions import ReadTimeout, RequestException
from urllib3.exceptions import HTTPError as TransportError
from urllib3.exceptions import ReadTimeoutError

from batchq.compute.docker import podman
from batchq.errors import (
    ContainerGone,
    ContainerRuntimeError,
    ImageMissing,
    RuntimeUnknown,
    StartInterrupted,
    StartRefused,
)
from batchq.ports.runtime import ContainerState

# The prefixes of moby, containerd, Podman (the name or path of the runtime) and runc (runc 1.0 names source files;
# older versions also quote the nested message).
_LAYERS = re.compile(
    r"(?:(?:"
    r"failed to create task for container|failed to create shim(?: task)?|"
    r"(?:(?:/[\w.-]+)*/)?(?:crun|runc)(?=:)|"
    r"OCI runtime (?:create|start) failed|runc (?:create|start) failed|\w+_linux\.go:\d+|"
    r"unable to start container process|error during container init|"
    r"(?:starting container process|container init) caused"
    r"):? [\\\"]*)+"
)
_PROGRAM = re.compile(
    r'exec: [\\]*"|(?:crun: )?(?:executable file [`\'"]|open executable: |'
    r"the path [`'][^`']*[`'] (?:exists but it is not executable|is not a regular file))"  # crun 1.21
)
_PATH = r"(?:/[\w.-]+)+"
_HOOK = r"(?:error )?running (?:\w+ )?hook #?\d+(?: caused)?: [\\\"]*"
_CALL = "(?:mkdir|open|write|rename)"
_ID = "[0-9a-f]{64}"
_BROKEN_DISK = "(?:no space left on device|read-only file system|input/output error|structure needs cleaning)"
_HOST = re.compile(
    "|".join(
        (
            # Cgroups that are missing, full, read-only or managed by a systemd that does not reply. Not "setting cgroup
            # config", which comes later and depends on the job's limits; nor a process that ended meanwhile.
            (
                r"(?:unable to apply cgroup configuration|applying cgroup configuration for process caused):? "
                r"(?!.*no such process)"
            ),
            "cgroups: (?:cgroup mountpoint does not exist|cannot (?:find|found) cgroup mount destination)",
            "systemd not running on this host",
            # A runtime or shim that is not installed, lacks a library, or cannot get memory or a process.
            (
                r"unable to retrieve OCI runtime error \(open [^()\s]+: no such file or directory\): "
                r'(?:fork/exec /\S+: |exec: [\\]*"[\w./-]+[\\]*": executable file not found|'
                r"[\w./-]+ did not terminate successfully: exit status 127: )"
            ),
            "failed to start shim: ",
            rf"fork/exec {_PATH}: ",
            # Hooks belong to the engine. The NVIDIA hook reads variables of the image only once its library is loaded.
            rf"{_HOOK}(?:error running hook: )?(?:fork/exec|exec:) ",
            (
                rf"{_HOOK}error running hook: exit status \d+, stdout: , stderr: "
                r"(?:Auto-detected mode as '\w+' )?nvidia-container-cli: initialization error: "
            ),
            # Security modules with the engine's own profiles.
            "unable to init seccomp: ",
            "unable to apply apparmor profile: ",
            # Kernel modules are missing, because the kernel was updated and not booted yet.
            r"failed to create endpoint [\w.-]+ on network [\w.-]+: failed to add the host ",
            # The disk with the engine's own state, not the container's file system.
            rf"{_CALL} {_PATH}/(?:overlay2|containers)/{_ID}(?:-init)?(?:/[\w.-]+)?: {_BROKEN_DISK}",
            rf"{_CALL} /(?:var/)?run{_PATH}: {_BROKEN_DISK}",
            # The same for containerd's image store. A path in the file system of a container contains its id.
            rf"(?:failed to [\w ]+: )*{_CALL} (?!\S*/{_ID}/){_PATH}/io\.containerd\.[\w.-]+{_PATH}: {_BROKEN_DISK}",
        )
    )
)
MIN_SECRET = 4  # characters: replacing shorter words would make the message unreadable
# Maximum characters: of an attempt's reason, of a redacted text, and of the engine's text before it is redacted. A user
# can determine most of the engine's text.
MAX_REASON, MAX_REDACTED, MAX_ENGINE_TEXT = 1024, 2048, 4096
COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE = 127, 126  # exit codes
BAD_REQUEST, NOT_FOUND, CONFLICT, SERVER_ERROR, NOT_IMPLEMENTED = 400, 404, 409, 500, 501  # HTTP status codes
_NO_RESPONSE = (DockerException, RequestException, TransportError, StreamParseError, OSError, ValueError)
# A layer below the engine (containerd, the shim) is down or restarting. Only these texts distinguish such a 500 from
# the one for an invalid user name; each is longer than one word, as a user could choose a single word.
_LOWER_LAYER_FAILED = (
    'desc = "transport',
    "transport is closing",
    "dial unix",
    ": unavailable",
    "ttrpc: closed",
    "context deadline exceeded",
)
# An earlier start of the container reached containerd, and the engine has no record of it: the program may run.
_HALF_STARTED = re.compile(
    r"\btask [0-9a-f]{64}: already exists|failed to start shim: mkdir \S+/[0-9a-f]{64}: file exists"
    r"|\A\W*id already in use\W*\Z"
)
# The engine could not connect to containerd, or containerd could not create the container: the program did not begin.
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
def translate_errors(call: str, error_type: type[RuntimeUnknown] = RuntimeUnknown) -> Iterator[None]:
    """Raise `error_type` for every error of the SDK and its transport that the block does not handle itself."""
    try:
        yield
    except _NO_RESPONSE as error:
        raise error_type(f"{call}: {message_of(error)}") from error


def is_timeout(unknown: RuntimeUnknown) -> bool:
    """Whether the error is a timeout: the engine accepted the request, and did not reply in time."""
    return isinstance(unknown.__cause__, ReadTimeout | ReadTimeoutError)


def was_not_sent(error: BaseException | None) -> bool:
    """Whether the request was never sent, because no connection to the engine could be made."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError | FileNotFoundError):
            return True
        error = error.__cause__ or error.__context__
    return False


def message_of(error: Exception) -> str:
    """The engine's error message, or the error's own text if there is none; redacted."""
    return redacted((isinstance(error, APIError) and error.explanation) or str(error))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Remove credentials, the secrets, and the words that the secrets consist of; one line of bounded length."""
    text = text[:MAX_ENGINE_TEXT]
    for pattern in _CREDENTIALS:
        text = pattern.sub(r"\1***", text)
    text = " ".join(text.split())[:MAX_REDACTED]
    words = {word for secret in secrets for word in (secret, *_WORD.findall(secret)) if len(word) >= MIN_SECRET}
    if not words:
        return text
    return re.sub("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), "***", text)


def redact_error(error: APIError, secrets: Iterable[str]) -> None:
    """Remove secrets from the engine's error message in place: the engine quotes options of log drivers."""
    error.explanation = redacted(error.explanation or str(error), secrets)


def agent_reason(kind: str, error: Exception) -> str:
    """An attempt's reason in the format of AWS's agent, cut to the length that AWS allows."""
    return f"{kind}: Error response from daemon: {message_of(error)}"[:MAX_REASON]


def create_refused(why: str, *, certain: bool = True) -> StartRefused:
    """The error of a container that batchq itself refuses to create, with a reason in the format of AWS's agent."""
    return StartRefused(f"CannotCreateContainerError: {why}"[:MAX_REASON], certain=certain)


def create_forbidden(why: str) -> StartRefused:
    """As `create_refused`, for a container that a policy of the server or of the account forbids."""
    return StartRefused(f"CannotCreateContainerError: {why}"[:MAX_REASON], forbidden=True)


def create_error(error: APIError) -> ContainerRuntimeError:
    """The meaning of an error reply to a create call; the caller handles conflicts of names."""
    if isinstance(error, ImageNotFound):
        return ImageMissing(message_of(error))
    if lower_layer_failed(error):
        return RuntimeUnknown(f"create: {message_of(error)}")
    # The engine replies 500 to many errors of the job and to full disks alike, so a 500 is only final if it repeats. So
    # is a 404: a missing network, or a missing container to share one with, may be created again.
    certain = error.status_code is not None and error.status_code < SERVER_ERROR and error.status_code != NOT_FOUND
    certain = certain or podman.is_invalid_request(message_of(error))
    host_failed = is_about_host(message_of(error))
    return StartRefused(
        agent_reason("CannotCreateContainerError", error), certain=certain and not host_failed, host_failed=host_failed
    )


def start_error(error: APIError, *, state: ContainerState | None, exit_code: int) -> ContainerRuntimeError | None:
    """The meaning of an error reply to a start call, by an inspection made after it. None: the container was started.

    `state` is the inspected state, None: the container does not exist; `exit_code` is the inspected one, or 0.
    """
    if state is None or state is ContainerState.GOING:
        return ContainerGone(message_of(error))
    if state is not ContainerState.CREATED:
        return None
    if is_server_error(error) and is_interrupted(message_of(error)):
        return StartInterrupted(message_of(error))
    if lower_layer_failed(error) or error.status_code == CONFLICT:
        return RuntimeUnknown(f"start: {message_of(error)}")
    exit_code = exit_code or podman.exit_code_of_failed_start(message_of(error))
    return StartRefused(
        agent_reason("CannotStartContainerError", error),
        exit_code=exit_code or None,
        certain=exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE} and is_about_program(message_of(error)),
        host_failed=is_about_host(message_of(error)),
    )


def is_interrupted(text: str) -> bool:
    """Whether containerd, the shim or the engine ended during a start, so that the program may have run.

    `text` is the error in the engine's reply to the start, or the `State.Error` of a later inspection.
    """
    if _HALF_STARTED.search(text):
        return True
    return reports_lower_layer_failure(text) and not any(words in text.lower() for words in _NOT_REACHED)


def lower_layer_failed(error: APIError) -> bool:
    """Whether the reply reports that a layer below the engine is down.

    The text may only cause another attempt at the start, never a final failure.
    """
    return is_server_error(error) and reports_lower_layer_failure(message_of(error))


def is_server_error(error: APIError) -> bool:
    return error.status_code is not None and error.status_code >= SERVER_ERROR


def reports_lower_layer_failure(text: str) -> bool:
    """Whether the text reports that a layer below the engine (containerd, the shim) is down or restarting."""
    return any(words in text.lower() for words in _LOWER_LAYER_FAILED)


def is_about_program(text: str) -> bool:
    """Whether the runtime reached the container's program and could not execute it."""
    return _PROGRAM.match(_cause(text)) is not None


def is_about_host(text: str) -> bool:
    """Whether the host failed before the runtime used any value of the job or its image."""
    return _HOST.match(_cause(text)) is not None


def _cause(text: str) -> str:
    """The message without the prefixes of the layers."""
    layers = _LAYERS.match(text)
    return text[layers.end() :] if layers else text
