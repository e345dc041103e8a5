"""The pause container, which only holds the namespaces that other containers share: docs/decisions/0012.

Its image is created here from one program of some 200 bytes, so no registry is needed. The program does what `pause`
does in Kubernetes: it waits for ever, and lets the kernel reap orphaned processes where the containers of a node share
a PID namespace, in which it is process 1. In C:

    int main(void) {
        signal(SIGCHLD, SIG_IGN);
        for (;;) pause();
    }
"""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from threading import Lock

from docker.errors import APIError, ImageNotFound, NotFound

from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import tar_archive
from batchq.compute.docker.errors import agent_reason, create_refused
from batchq.compute.docker.inspection import labels_of, member, state_in
from batchq.errors import NameTaken, StartRefused
from batchq.ports.runtime import ContainerState

REPOSITORY = "batchq-pause"
LABEL = "io.batchq.pause-image"
PROGRAM = "/pause"

ADDRESS = 0x400000  # the load address
PAGE = 0x10000  # bytes: the largest page size of arm64
HEADERS = 64 + 56  # bytes: the ELF header, and the program header of the one segment
X86_64, AARCH64 = 62, 183  # machine types of elf.h
IGNORE = struct.pack("<QQQQ", 1, 0, 0, 0)  # the kernel's struct sigaction: SIG_IGN, no flags, no restorer, no mask

CODE_AMD64 = bytes.fromhex(
    "b8 0d 00 00 00"  # mov eax, 13          rt_sigaction(
    "bf 11 00 00 00"  # mov edi, 17            SIGCHLD,
    "48 8d 35 17 00 00 00"  # lea rsi, [rip+23]  &IGNORE, which follows the code,
    "31 d2"  # xor edx, edx                    NULL,
    "41 ba 08 00 00 00"  # mov r10d, 8         sizeof(sigset_t))
    "0f 05"  # syscall
    "b8 22 00 00 00"  # wait: mov eax, 34    pause()
    "0f 05"  # syscall
    "eb f7"  # jmp wait
    "00 00 00 00"  # to a multiple of 8
)
CODE_ARM64 = struct.pack(
    "<14I",
    0xD28010C8,  # mov x8, #134              rt_sigaction(
    0xD2800220,  # mov x0, #17                 SIGCHLD,
    0x10000181,  # adr x1, #48                 &IGNORE, which follows the code,
    0xD2800002,  # mov x2, #0                  NULL,
    0xD2800103,  # mov x3, #8                  sizeof(sigset_t))
    0xD4000001,  # svc #0
    0xD2800928,  # wait: mov x8, #73         ppoll(
    0xD2800000,  # mov x0, #0                  NULL,
    0xD2800001,  # mov x1, #0                  0,
    0xD2800002,  # mov x2, #0                  NULL: no timeout,
    0xD2800003,  # mov x3, #0                  NULL)
    0xD4000001,  # svc #0                    arm64 has no pause
    0x17FFFFFA,  # b wait
    0xD503201F,  # nop                       to a multiple of 8
)
PROGRAMS: Mapping[str, tuple[int, bytes]] = {
    "amd64": (X86_64, CODE_AMD64),
    "x86_64": (X86_64, CODE_AMD64),
    "arm64": (AARCH64, CODE_ARM64),
    "aarch64": (AARCH64, CODE_ARM64),
}


def elf(machine: int, code: bytes) -> bytes:
    """A static ELF program: the two headers, then the code and its data in one segment."""
    size = HEADERS + len(code) + len(IGNORE)
    magic = b"\x7fELF" + bytes((2, 1, 1)).ljust(12, b"\0")  # 64 bits, little-endian, version 1
    head = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, machine, 1, ADDRESS + HEADERS, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ADDRESS, ADDRESS, size, size, PAGE)  # load it, to read and run
    return head + segment + code + IGNORE


def image() -> str:
    """The name of the image, with a digest of its content: another version of batchq has an image of its own."""
    programs = b"".join(elf(*PROGRAMS[name]) for name in sorted(PROGRAMS))
    return f"{REPOSITORY}:{hashlib.sha256(programs).hexdigest()[:12]}"


IMAGE = image()
_IMAGE_LOCK = Lock()  # of two images created at the same time one would lose its name


def find_pause_container(client: Client, name: str, labels: Mapping[str, str]) -> object | None:
    """Inspect the pause container with this name; None: it does not exist. Raises NameTaken if its labels differ."""
    try:
        inspected: object = client.inspect_container(name)
    except NotFound:
        return None
    if not labels.items() <= labels_of(inspected, "Config", "Labels").items():
        raise NameTaken(f"The name {name} is used by a container that does not belong to this server.")
    return inspected


def runs(inspected: object) -> bool:
    """Whether the inspected container runs."""
    return state_in(member(inspected, "State", of=dict)) is ContainerState.RUNNING


def create_pause_container(client: Client, request: Mapping[str, object], name: str) -> str:
    """Create a pause container, and its image if that is missing; return the container's id. Raises StartRefused.

    `request` is the body of the create request.
    """
    try:
        return _create(client, request, name)
    except ImageNotFound:
        with _IMAGE_LOCK:
            import_image(client)
        return _create(client, request, name)


def import_image(client: Client) -> None:
    """Import the image, which has some 200 bytes and stays in the engine. Idempotent. Raises StartRefused."""
    architecture = member(client.version(), "Arch", of=str)
    if architecture not in PROGRAMS:
        why = f"no pause container for architecture {architecture[:100]}"
        raise create_refused(f"containers cannot share a node: {why}")
    changes = [f'ENTRYPOINT ["{PROGRAM}"]', f"LABEL {LABEL}=1"]
    repository, _, tag = IMAGE.partition(":")
    layer = tar_archive({PROGRAM: elf(*PROGRAMS[architecture])}, mode=0o755)
    try:
        client.import_image_from_data(layer, repository, tag, changes)
    except APIError as error:
        raise StartRefused(agent_reason("CannotCreateContainerError", error), certain=False) from error


def create_request(
    *, network: str, labels: Mapping[str, str], node: str | None = None, names: Sequence[str] = ()
) -> Mapping[str, object]:
    """The body of the create request.

    `node` is the name by which other nodes find it. `names` are those of the node's containers, which find each other
    at localhost.
    """
    return {
        "Image": IMAGE,
        "Labels": dict(labels),
        "NetworkingConfig": {"EndpointsConfig": {network: {"Aliases": [] if node is None else [node]}}},
        "HostConfig": {
            "NetworkMode": network,
            "IpcMode": "shareable",
            "ExtraHosts": [f"{name}:127.0.0.1" for name in names],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "LogConfig": {"Type": "none"},
            # If the engine restarts, the containers that joined it have ended as well; it is removed or replaced.
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        },
    }


def _create(client: Client, request: Mapping[str, object], name: str) -> str:
    response: object = client.create_container_from_config(request, name=name)  # type: ignore[no-untyped-call]  # the stubs
    return member(response, "Id", of=str)
