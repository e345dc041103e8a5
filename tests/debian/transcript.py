"""The commands of the transcript, and the transcript with constant ids, times and sizes."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tests.debian.chroot import Debian
from tests.docs.pages import examples
from tests.house.rooms import ROOT
from tests.support.docker_api import engine_socket

#: The command of the unit, as its user.
SERVE = (
    "env HOME=/var/lib/batchq setpriv --reuid=batchq --regid=batchq --init-groups "
    "batchq serve --settings /etc/batchq/server.toml"
)
#: A server in the background, and its first line.
START = f"coproc server {{ exec {SERVE} 2>>/var/log/batchq.log; }}; read -r line <&${{server[0]}}; echo $line"
STOP = "kill $server_PID && wait $server_PID"
#: A command of README's example for the AWS CLI, with its indented lines.
COMMAND = re.compile(r"^\S.*(?:\n .*)*", re.MULTILINE)
VARIABLE = (
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "5d1f6c1e-8f5c-4a41-9f0e-1f1f3c7c2a55",
    ),
    (re.compile(r"\d{8}T\d{6,12}Z"), "20261126T190000000000Z"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "2026-11-26 19:00:00,000"),
    (re.compile(r"\d+ bytes"), "278528 bytes"),
    (re.compile(r"instance [0-9a-f]{8}"), "instance 6137a5c2"),
    (re.compile(r"(uid|UID|gid|GID) \d+"), r"\1 999"),
)


class Step(Struct, frozen=True):
    """A command of the transcript."""

    #: As it is printed.
    shown: str
    #: What runs; empty: the command that is printed.
    run: str = ""
    #: The wheels that are published first: `old`, `new` or `aws`.
    publishes: str = ""


def readme_steps() -> Sequence[Step]:
    """The commands of README's example for the AWS CLI."""
    (text,) = [
        example.text for example in examples((ROOT / "README.md").read_text()) if "aws batch submit-job" in example.text
    ]
    return tuple(Step(command) for command in COMMAND.findall(text))


STEPS: Sequence[tuple[str, Sequence[Step]]] = (
    (
        "Install",
        (
            Step("python3 -m venv /opt/batchq", publishes="old"),
            Step("/opt/batchq/bin/pip install --quiet batchq"),
            Step("export PATH=/opt/batchq/bin:$PATH BATCHQ_DATA=/var/lib/batchq"),
            Step("batchq --version"),
        ),
    ),
    (
        "Install the service",
        (
            Step("batchq install-service --system"),
            Step("systemd-sysusers", "systemd-sysusers 2>&1"),
            # StateDirectory= of the unit makes the folder.
            Step(
                "systemctl enable --now batchq.service", f"install -d -o batchq -g batchq -m 700 $BATCHQ_DATA; {START}"
            ),
        ),
    ),
    (
        "Run a job",
        (
            # The notices on stderr depend on the speed of the machine.
            Step(
                "batchq run busybox -- echo hello from batchq",
                "batchq run busybox -- echo hello from batchq 2>/dev/null",
            ),
            Step("batchq submit --name lasting busybox -- sh -c 'sleep 15; echo the upgrade did not stop this job'"),
        ),
    ),
    (
        "Run a job with the AWS CLI",
        (Step("/opt/batchq/bin/pip install --quiet awscli", publishes="aws"), *readme_steps()),
    ),
    (
        "Upgrade",
        (
            Step("/opt/batchq/bin/pip install --quiet --upgrade batchq", publishes="new"),
            Step("systemctl restart batchq.service", f"{STOP}; {START}"),
            Step("batchq --version"),
            Step("journalctl --unit batchq --output cat --grep upgrade", "grep upgrade /var/log/batchq.log"),
            Step("ls /var/lib/batchq/batchq.db.*"),
            Step("batchq wait lasting", "batchq wait lasting >/dev/null 2>&1"),
            Step("batchq logs lasting"),
        ),
    ),
    (
        "The older version refuses the upgraded data",
        (
            Step("systemctl stop batchq.service", STOP),
            Step("/opt/batchq/bin/pip install --quiet batchq==0.1.0"),
            Step("runuser -u batchq -- batchq serve --settings /etc/batchq/server.toml", f"{SERVE} 2>&1 || true"),
            Step("/opt/batchq/bin/pip install --quiet --upgrade batchq"),
            Step("systemctl start batchq.service", START),
        ),
    ),
    (
        "Back up and restore",
        (
            Step("install -d -o batchq -g batchq -m 700 /srv/backups"),
            Step("runuser -u batchq -- batchq backup /srv/backups/monday.db"),
            Step("runuser -u batchq -- batchq check /srv/backups/monday.db"),
            Step("systemctl stop batchq.service", STOP),
            Step("runuser -u batchq -- batchq restore /srv/backups/monday.db"),
            Step("systemctl start batchq.service", START),
            Step("batchq leave-safe-mode"),
            Step("batchq run busybox -- echo hello again", "batchq run busybox -- echo hello again 2>/dev/null"),
        ),
    ),
    (
        "Remove the service",
        (
            Step("systemctl disable --now batchq.service", STOP),
            Step("batchq uninstall-service --system"),
        ),
    ),
)


def transcript(shell: Debian, wheels: dict[str, Sequence[Path]]) -> str:
    """Run all steps and return them with their output, as blocks of Markdown."""
    shell.run("cd /root")
    # In the packages of an engine the group of the socket is `docker`.
    shell.run(f"groupadd --gid {engine_socket().stat().st_gid} docker")
    return "\n\n".join(_part(shell, title, steps, wheels) for title, steps in STEPS) + "\n"


def _part(shell: Debian, title: str, steps: Sequence[Step], wheels: dict[str, Sequence[Path]]) -> str:
    lines = [line for step in steps for line in _played(shell, step, wheels)]
    return "\n".join([f"{title}:", "", "```console", *lines, "```"])


def _played(shell: Debian, step: Step, wheels: dict[str, Sequence[Path]]) -> Iterator[str]:
    shell.publish(*wheels.get(step.publishes, ()))
    yield f"# {step.shown}"
    for line in shell.run(step.run or step.shown):
        text = line
        for pattern, constant in VARIABLE:
            text = pattern.sub(constant, text)
        print(f"{step.shown}: {line}", file=sys.stderr)
        yield text
