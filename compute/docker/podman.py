"""The replies of Podman's Docker-compatible API that differ from Docker's. Pure. docs/engines.md lists all differences.

Podman replies 500 where Docker has a status of its own, so that only the text distinguishes the cases. A text decides
nothing alone where a job could choose it.
"""

import re

ENGINE = "Podman Engine"  # the name of the first component in the reply to /version

# The prefixes of the errors of the functions that parse a create request.
_INVALID_REQUEST = ("fill out specgen: ", "container create: running container create option: ")
_DEPENDENTS = "has dependent containers which must be removed before it"
_NOT_RUNNING = "can only create exec sessions on running containers"
_NETWORK_EXISTS = "network already exists"
_LOST_RECORD = re.compile(r'getting container from store "([0-9a-f]{64})": container not known')
# At the end of the error of a failed start, where Docker sets `State.ExitCode`.
_EXIT_CODES = {
    "OCI runtime attempted to invoke a command that was not found": 127,
    "OCI permission denied": 126,
}


def is_podman(version: object) -> bool:
    """Whether the engine with this reply to /version is Podman."""
    match version:
        case {"Components": [{"Name": name}, *_]}:
            return bool(name == ENGINE)
        case _:
            return False


def network_exists(text: str) -> bool:
    """Whether a network could not be created because its name is in use; Docker replies 409."""
    return text.endswith(_NETWORK_EXISTS)


def has_dependents(text: str) -> bool:
    """Whether a removal was refused because other containers use the container's namespaces; Docker removes it."""
    return _DEPENDENTS in text


def is_not_running(text: str) -> bool:
    """Whether a command was refused because the container does not run; Docker replies 409."""
    return text.startswith(_NOT_RUNNING)


def is_invalid_request(text: str) -> bool:
    """Whether a create request was refused for its values, so that a repeated one fails too; Docker replies 400."""
    return text.startswith(_INVALID_REQUEST)


def lost_record(text: str) -> str | None:
    """The id of a container whose storage is gone, for which the engine refuses every list; None: another error."""
    found = _LOST_RECORD.search(text)
    return found[1] if found else None


def exit_code_of_failed_start(text: str) -> int:
    """The exit code that Docker sets for this error of a start; 0: Docker sets none."""
    return next((code for end, code in _EXIT_CODES.items() if text.endswith(end)), 0)
