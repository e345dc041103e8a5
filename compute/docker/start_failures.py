"""Which layer a failed start is about, by the text that the engine answers: the program, the host, or unknown. Pure.

The exit code of a failed start does not decide it: Docker gives 127 to every text with "no such file or directory", a
missing cgroup among them. Each runtime layer puts its own prefix in front of the cause. The prefixes are removed from
the start of the text, and the cause is matched where it begins: what a job chooses (its command, user, mounts, devices,
log options) stands behind a fixed text of the layer that reports it, so a job cannot write any of these texts.
"""

import re

# moby, containerd and runc (1.0 names source files, older ones also quote what is nested).
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
            # Cgroups that are missing, full, read-only or managed by a systemd that does not answer. Not "setting
            # cgroup config", which comes later and depends on the limits of the job; nor a process that died meanwhile.
            (
                r"(?:unable to apply cgroup configuration|applying cgroup configuration for process caused):? "
                r"(?!.*no such process)"
            ),
            "cgroups: (?:cgroup mountpoint does not exist|cannot (?:find|found) cgroup mount destination)",
            "systemd not running on this host",
            # A runtime or shim that is not installed, lacks a library, or for which there is no memory or process.
            (
                r"unable to retrieve OCI runtime error \(open [^()\s]+: no such file or directory\): "
                r'(?:fork/exec /\S+: |exec: [\\]*"[\w./-]+[\\]*": executable file not found|'
                r"[\w./-]+ did not terminate successfully: exit status 127: )"
            ),
            "failed to start shim: ",
            rf"fork/exec {_PATH}: ",
            # Hooks are the engine's own. The NVIDIA one reads the image's variables; not before its library is loaded.
            rf"{_HOOK}(?:error running hook: )?(?:fork/exec|exec:) ",
            (
                rf"{_HOOK}error running hook: exit status \d+, stdout: , stderr: "
                r"(?:Auto-detected mode as '\w+' )?nvidia-container-cli: initialization error: "
            ),
            # Security modules with the engine's own profiles.
            "unable to init seccomp: ",
            "unable to apply apparmor profile: ",
            # Modules of a kernel that was replaced and not booted yet.
            r"failed to create endpoint [\w.-]+ on network [\w.-]+: failed to add the host ",
            # The disk of the engine's own state, not what is in the container's file system.
            rf"{_CALL} {_PATH}/(?:overlay2|containers)/{_ID}(?:-init)?(?:/[\w.-]+)?: {_BROKEN_DISK}",
            rf"{_CALL} /(?:var/)?run{_PATH}: {_BROKEN_DISK}",
        )
    )
)


def is_about_program(text: str) -> bool:
    """Whether the runtime came as far as the container's program, and could not execute it."""
    return _PROGRAM.match(_cause(text)) is not None


def is_about_host(text: str) -> bool:
    """Whether the host failed before anything that the job or its image chose was reached."""
    return _HOST.match(_cause(text)) is not None


def _cause(text: str) -> str:
    layers = _LAYERS.match(text)
    return text[layers.end() :] if layers else text
