"""Scripts of containers: the simulated runtime executes them, and Docker runs a shell command that does the same.

The command leaves out what only a simulated engine can do: a slow start, a slow exit, a temporary refusal.
"""

from collections.abc import Mapping
from datetime import timedelta
from shlex import quote
from typing import Any

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.task import TaskContainer
from tests.support.builders import task_container

IMAGE = "batchq-test:latest"
SMALL = Resources(millicpus=250, memory_mib=64)
NOT_THERE = ("/no/such/program",)
FOR_EVER = 10**6
FAILURE_FILE = "/opt/ml/output/failure"
AMPLE = timedelta(seconds=15)  # the grace of containers that handle the signal: no kill on a slow machine


def lasting(exit_code: int = 0, **more: Any) -> Script:
    """Runs until `world.finish`, so that no test depends on a duration."""
    return Script(seconds=None, on_term=exit_code, **more)


LASTING = lasting()
HANDLES_SIGTERM = Script(seconds=60, on_term=0, output=("ready",))
IGNORES_SIGTERM = Script(seconds=60, on_term=None, output=("ready",))


def spec(
    *scripts: Script, children: Mapping[int, Script] = {}, environment: tuple[tuple[str, str], ...] = (), **changes: Any
) -> ContainerSpec:
    """A container that runs a script per attempt, and the last one in all further attempts.

    `children` are the scripts of single children of an array; `changes` are fields of ContainerSpec.
    """
    defaults = {"image": IMAGE, "resources": SMALL, "command": for_children(command(*scripts), children)}
    own = (script_variable(script, child=index) for index, script in children.items())
    return ContainerSpec(**defaults | changes, environment=(*environment, script_variable(*scripts), *own))


def contained(name: str, *scripts: Script, **changes: Any) -> TaskContainer:
    """A container of a task; `changes` are fields of TaskContainer and ContainerSpec, and `after`."""
    own = {change: changes.pop(change) for change in changes.keys() & {"environment", "mounts"}}
    handles_stops = bool(scripts) and all(script.on_term is not None for script in scripts)
    usual = {"spec": spec(*scripts, **own), "stop_timeout": AMPLE if handles_stops else None}
    return task_container(name, **usual | changes)


def for_children(others: tuple[str, ...], children: Mapping[int, Script]) -> tuple[str, ...]:
    if not children:
        return others
    cases = "".join(f"{index}) {shell(script)};; " for index, script in children.items())
    return ("sh", "-c", f'case "$AWS_BATCH_JOB_ARRAY_INDEX" in {cases}*) {others[2]};; esac')


def command(*scripts: Script) -> tuple[str, ...]:
    if any(script.refuse is not None for script in scripts):
        assert len(scripts) == 1, "a command that is not there cannot depend on the attempt"
        return NOT_THERE
    *first, last = map(shell, scripts)
    cases = "".join(f"{attempt}) {text};; " for attempt, text in enumerate(first, start=1))
    return ("sh", "-c", f'case "$AWS_BATCH_JOB_ATTEMPT" in {cases}*) {last};; esac')


def shell(script: Script) -> str:
    """The script as a shell command. A handler of SIGTERM runs at once, because the sleep is in the background."""
    on_stop_signal = (
        "''"
        if script.on_term is None
        else quote(f"sleep {script.term_delay}; {saving(script.term_checkpoint)}; exit {script.on_term}")
    )
    on_request = f"sleep {script.request_delay}; {saving(script.on_request)}"
    on_request += f"; exit {script.request_exit}" if script.request_exit is not None else ""
    handles_requests = script.on_request is not None or script.request_exit is not None
    lines = [quote(line) for line in script.output] + [f'"${name}"' for name in script.prints_environment]
    lasts = FOR_EVER if script.seconds is None else script.seconds
    return "; ".join(
        [
            f"trap {on_stop_signal} TERM",
            *([f"trap {quote(on_request)} USR1 USR2 HUP INT"] if handles_requests else []),
            *(saving(name) for name in script.checkpoints),
            *(f"printf '%s\\n' {line}" for line in lines),
            *([f"sleep {lasts} & p=$!; while kill -0 $p 2>/dev/null; do wait $p; done"] if lasts else []),
            *([f"printf %s {quote(script.failure)} > {FAILURE_FILE}"] if script.failure is not None else []),
            ending(script),
        ]
    )


def saving(name: str | None) -> str:
    """Write a checkpoint as a program should: under another name, and rename it."""
    if name is None:
        return ":"
    there = '"$BATCHQ_CHECKPOINT_DIR"'
    return f"date > {there}/.written; mv {there}/.written {there}/{quote(name)}"


def ending(script: Script) -> str:
    if script.out_of_memory:
        return "exec dd if=/dev/zero of=/dev/null bs=1G count=1"
    return f"exit {script.exit_code}"
