"""Users of a lab stop many jobs. `python -m tests.demo.stopping` records it on Docker in docs/stopping-many.md."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.house.rooms import ROOT
from tests.service.job_queue import JobQueue, create_key, run
from tests.support.service import BATCHQ, serving

PAGE = ROOT / "docs" / "stopping-many.md"
OPENING, CLOSING = "<!-- stopping -->", "<!-- /stopping -->"
BLOCK = re.compile(f"{OPENING}.*{CLOSING}", re.DOTALL)
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ROOM = 5  # jobs
SIMULATED = "simulated"  # needs no engine
USERS = {"cora": ("--coordinates", "lab"), "ada": (), "bob": ()}


def main() -> int:
    """Write the transcript into the page."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="batchq-demo-") as directory:
        for line in transcript(Path(directory) / "data"):
            print(line, flush=True)
            lines.append(line)
    PAGE.write_text(BLOCK.sub(lambda _: block(lines), PAGE.read_text()))
    return 0


def block(lines: Iterable[str]) -> str:
    return "\n".join([OPENING, "```console", *lines, "```", CLOSING])


def anonymous(text: str) -> str:
    """Ids of jobs, which are others each time, by their order."""
    known: dict[str, str] = {}
    return ID.sub(lambda pair: known.setdefault(pair[0], f"job-{len(known)}"), text)


def transcript(data: Path, *flags: str) -> Iterator[str]:
    """Line by line, as it goes. `flags` are of the server."""
    keys = create_users(data)
    with serving(data, "--auth", "sigv4", *flags) as service:
        (service.instance,) = re.findall(r"instance (\w+)", run("check", "--data", data)[0])
        try:
            yield from play(JobQueue(service, room=ROOM, key=keys["amy"], name="day"), keys)
        finally:
            if SIMULATED not in flags:
                service.remove_containers()


def create_users(data: Path) -> dict[str, list[str]]:
    """The keys of an administrator and of the users of a lab."""
    keys = {"amy": create_key("amy", data)}
    run("account", "add", "lab", "--data", data)
    for name, more in USERS.items():
        run("user", "add", name, "--account", "lab", *more, "--data", data)
        keys[name] = create_key(name, data)
    return keys


def play(day: JobQueue, keys: dict[str, list[str]]) -> Iterator[str]:
    train = day.running("train-1", key=keys["ada"])
    grid = day.submit("grid", array=3, key=keys["ada"])
    for index in range(3):
        day.reach(f"{grid}:{index}", "RUNNING")
    model = day.running("model", key=keys["bob"])
    second, third = (day.submit(f"train-{number}", key=keys["ada"]) for number in (2, 3))

    def line_of(user: str, line: str) -> Iterator[str]:
        return run_line(day.service.url, user, keys[user], line)

    yield from line_of("ada", "batchq cancel -n 'train*' -t pending --dry-run")
    yield from line_of("ada", f"batchq cancel {second},{third}")
    yield from line_of("ada", f"batchq terminate {grid}.0,{grid}.2 --grace 5")
    for index in (0, 2):
        day.reach(f"{grid}:{index}", "FAILED")
    yield from line_of("ada", f"batchq terminate {train} {model}; echo $?")
    day.reach(train, "FAILED")
    yield from line_of("ada", "batchq terminate; echo $?")
    yield from line_of("cora", "batchq terminate -A lab -t all --reason 'the room is too hot'")
    for job in (grid, model):
        day.reach(job, "FAILED")
    yield from line_of("cora", "batchq terminate -A lab -t all")


def run_line(url: str, user: str, key: list[str], line: str) -> Iterator[str]:
    """A run_line command line and its output."""
    path = f"{BATCHQ.parent}:{os.environ['PATH']}"
    own = {"PATH": path, "BATCHQ_URL": url, "AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    done = subprocess.run(["bash", "-c", f"exec 2>&1; {line}"], env=own, capture_output=True, text=True, check=False)
    yield f"{user}$ {line}"
    yield from done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
