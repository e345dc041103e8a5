"""Classifies the engine's error message of a failed start: about the program, about the host, or neither. Pure.

The exit code of a failed start is not enough: Docker sets 127 for every message with "no such file or directory", such
as for a missing cgroup. Each layer of the runtime adds a prefix of its own. The prefixes are removed, and the cause is
matched at its beginning: the values of a job (command, user, mounts, devices, log options) only appear behind a fixed
text of the layer that reports them, so a job cannot produce these messages.
"""

import re

# The prefixes of moby, containerd and runc (runc 1.0 names source files; older versions also quote the nested message).
_LAYERS = re.compile(
    r"(?:(?:"
    r"failed to create task for container|failed to create shim(?: task)?|"
    r"OCI runtime (?:create|start) failed|runc (?:create|start) failed|\w+_linux\.go:\d+|"
    r"unable to start container process|error during container init|"
    r"(?:starting container process|container init) caused"
    r"):? [\\\"]*)+"
)
_PROGRAM = re.compile(r'exec: [\\]*"|(?:crun: )?(?:executable file [`\'"]|open executable: )')
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
        )
    )
)


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
