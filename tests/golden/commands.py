"""The commands whose output is pinned, in the order in which they are called at the end of the day."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.service import PATIENCE, ForkedProcess, Service

COMMANDS: Mapping[str, str] = {
    "list": "list --all",
    "list-json": "list --all -o json",
    "list-failed": "list --all -t FAILED --columns job,name,state,why",
    "list-groups": "list --all --group-by state",
    "list-reasons": "list --all --group-by reason",
    "show": "show {again}",
    "show-json": "show {again} -o json",
    "show-task": "show {task}",
    "show-nodes": "show {nodes}",
    "show-array": "show {array}",
    "why-failed": "why {bad}",
    "why-waiting": "why {waiting}",
    "why-too-large": "why {too-large}",
    "why-json": "why {killed} -o json",
    "history-json": "history {stopped} -o json",
    "history": "history {stopped}",
    "logs": "logs {good}",
    "wait": "wait {good} {bad}",
    "queue-list": "queue list",
    "queue-list-json": "queue list -o json",
    "queue-show": "queue show default",
    "queue-show-json": "queue show default -o json",
    "env-list": "env list",
    "env-list-json": "env list -o json",
    "env-show": "env show local",
    "def-list": "def list",
    "def-list-json": "def list -o json",
    "def-show": "def show plain",
    "def-show-json": "def show plain -o json",
    "resource-list": "resource list",
    "events": "events {again}",
    "cost": "cost",
    "budget-list": "budget list",
    "checkpoints": "checkpoints {good}",
    "whoami": "whoami",
    "top": "top",
    "submit": "submit --name from-the-shell busybox -- true",
    "hold": "hold {waiting} --reason later",
    "release": "release {waiting}",
    "cancel": "cancel {waiting}",
    "terminate-dry-run": "terminate {running} --dry-run",
    "terminate": "terminate {running} --reason over",
    "rerun-dry-run": "rerun {bad} --dry-run",
    "rerun": "rerun {bad}",
    "pause": "pause {good}",
    "resume": "resume {good}",
    "drain": "drain default",
    "queue-enable": "queue enable default",
    "env-create": "env create gpu --vcpus 8",
    "account-refused": "account add physics",
    "account-add": "account add physics --job-vcpus 4 --queued 100 --data {data}",
    "account-list": "account list --data {data}",
    "account-show": "account show physics --data {data}",
    "user-add": "user add ada --account physics --data {data}",
    "user-list": "user list --data {data}",
    "key-list": "key list --data {data}",
    "budget-set": "budget set -A physics --soft 80 --hard 100 --period month",
    "webhook-create": "webhook create ci https://ci.example.com/batchq --kind FAILED -q default",
    "webhook-list": "webhook list",
    "webhook-delete": "webhook delete ci",
    "audit": "audit --limit 6",
    "settings": "settings",
    "help": "--help",
}


def outputs(service: Service, folder: Path, jobs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The output of each command with its exit status. The commands run in forks: 63 starts of Python take a minute."""
    environment = {
        "BATCHQ_URL": service.url,
        "BATCHQ_DATA": str(folder / "data"),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "TZ": "UTC",
    }
    for name, command in COMMANDS.items():
        words = command.format_map({**jobs, "data": str(folder / "data")}).split()
        errors = folder / f"{name}.stderr"
        process = ForkedProcess(words, log=errors, **environment)
        with process.stdout as stdout:
            output = stdout.read()
        status = process.wait(PATIENCE)
        yield name, f"$ batchq {command}\n{output}{errors.read_text()}[exit status {status}]\n"
