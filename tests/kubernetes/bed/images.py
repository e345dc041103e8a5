"""Writes the images of the bed as archives for `ctr images import`, without a container engine."""

import hashlib
import io
import json
import struct
import tarfile

ADDRESS = 0x400000
#: signal(SIGCHLD, SIG_IGN), then pause() for ever, as machine code of amd64.
PAUSE = bytes.fromhex("b80d000000bf11000000488d351700000031d241ba080000000f05b8220000000f05ebf700000000")
IGNORE = struct.pack("<QQQQ", 1, 0, 0, 0)  # struct sigaction: SIG_IGN
APPLETS = [
    "sh",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "dd",
    "df",
    "echo",
    "env",
    "expr",
    "false",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "nproc",
    "od",
    "printf",
    "ps",
    "pwd",
    "rm",
    "sed",
    "seq",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tee",
    "test",
    "time",
    "timeout",
    "touch",
    "tr",
    "true",
    "uname",
    "wc",
]
FOLDERS = ("bin", "dev", "etc", "proc", "root", "sys", "usr", "usr/bin", "var", "run")
ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def pause_program():
    size = 64 + 56 + len(PAUSE) + len(IGNORE)
    magic = b"\x7fELF" + bytes((2, 1, 1)).ljust(12, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", magic, 2, 62, 1, ADDRESS + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ADDRESS, ADDRESS, size, size, 0x10000)
    return header + segment + PAUSE + IGNORE


def archive(members):
    """A tar archive of `(name, content, mode)`: bytes are a file, a text is a link's target, None is a folder."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, mode in members:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
            else:
                entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content) if isinstance(content, bytes) else None)
    return written.getvalue()


def image(layer, tags, config):
    digest = hashlib.sha256(layer).hexdigest()
    described = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(described).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": tags, "Layers": [f"{digest}.tar"]}]).encode()
    return archive([(name, text, 0o644), (f"{digest}.tar", layer, 0o644), ("manifest.json", manifest, 0o644)])


def write_images(busybox, folder):
    """Write the archives of the pause image and of the images `batchq-test`. `busybox` is a static program.

    `batchq-test:sigint` has another stop signal. `batchq-test:entrypoint` runs a script, and has no program `sh`.
    """
    folder.mkdir(parents=True)
    program = busybox.read_bytes()
    root = archive(
        [
            *((other_folder, None, 0o755) for other_folder in FOLDERS),
            ("tmp", None, 0o1777),
            ("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644),
            ("bin/busybox", program, 0o755),
            *((f"bin/{applet}", "busybox", 0o777) for applet in APPLETS),
        ]
    )
    alone = archive([*((name, None, 0o755) for name in ("dev", "etc", "proc", "sys")), ("busybox", program, 0o755)])
    test_image = {"Env": ENVIRONMENT, "Cmd": ["sh"], "WorkingDir": "/"}
    pause = archive([("pause", pause_program(), 0o755)])
    images = {
        "pause": (pause, ["localhost/batchq-pause:1"], {"Entrypoint": ["/pause"]}),
        "test": (root, named("latest"), test_image),
        "sigint": (root, named("sigint"), test_image | {"StopSignal": "SIGINT"}),
        "entrypoint": (alone, named("entrypoint"), {"Entrypoint": ["/busybox", "sh", "-c"]}),
    }
    for name, described in images.items():
        (folder / f"{name}.tar").write_bytes(image(*described))


def named(tag):
    return [f"batchq-test:{tag}", f"docker.io/library/batchq-test:{tag}"]
