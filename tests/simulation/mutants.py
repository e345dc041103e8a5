"""`python -m tests.simulation.mutants` applies each mutant to a copy, and prints the first seed that detects it.

Conflicting writes are left to the tests of the store: a simulation has one writer.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.house.rooms import ROOT

COPIED = ["batchq", "compute", "api", "tests", "pyproject.toml"]

SEEDS = 2000
SEARCH = f"from tests.simulation.run import run_checked\nfor seed in range({SEEDS}): run_checked(seed)"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A bug: in `file` the text `old`, which occurs once, becomes `new`."""

    file: str
    breaks: str
    old: str
    new: str


MUTANTS = [
    Mutant(
        file="batchq/domain/explanation/facts.py",
        breaks="explanations name the jobs of other users",
        old='return "a job of another user" if job is None or not self.sees(job) else _name(job)',
        new='return "a job of another user" if job is None else _name(job)',
    ),
    Mutant(
        file="batchq/engine/handlers.py",
        breaks="containers absent on another engine count as lost",
        old="        if not self._state.engine_check.accepted:",
        new="        if False:",
    ),
    Mutant(
        file="batchq/engine/state.py",
        breaks="containers of another server are removed",
        old="seen = [it for it in seen if it in first]",
        new="seen = list(seen)",
    ),
    Mutant(
        file="batchq/clock.py",
        breaks="stored times stay when the machine's clock is set",
        old="shift = ClockShift(by=by,",
        new="shift = ClockShift(by=by - by,",
    ),
    Mutant(
        file="compute/simulated/engine.py",
        breaks="a name may be given twice",
        old="if known is not None and not self._network_is_gone(known):\n            return",
        new="if None:\n            return",
    ),
    Mutant(
        file="batchq/engine/containers/start.py",
        breaks="a container whose start was interrupted is started again",
        old="        if created.host_lost and self._start_requested:",
        new="        if False:",
    ),
    Mutant(
        file="batchq/engine/containers/translation.py",
        breaks="each try has another container name",
        old="        tag=tag,\n        spec=job",
        new="        tag=type(tag)(job_id=job.id, attempt=__import__('random').randrange(1, 99)),\n        spec=job",
    ),
    Mutant(
        file="batchq/domain/lifecycle/container_rules.py",
        breaks="a container does not wait for the success of another",
        old="if gate is Gate.OPEN}",
        new="if gate is not Gate.NEVER}",
    ),
    Mutant(
        file="batchq/domain/lifecycle/container_rules.py",
        breaks="a container that ends the others has ended before their stop signal",
        old="return ladder.next_effect(tag, old if ran and old.stop_ordered else None, new)",
        new="return None if ran and old.stop_ordered else do.CleanUpContainer(tag=tag)",
    ),
    Mutant(
        file="batchq/domain/lifecycle/containers.py",
        breaks="a job ends with its first container",
        old="over = all(it.state is AttemptContainerState.ENDED",
        new="over = any(it.state is AttemptContainerState.ENDED",
    ),
    Mutant(
        file="batchq/engine/arrays.py",
        breaks="children of an array under order start",
        old="if arrays.order(job) is not None]\n",
        new="if False]\n",
    ),
    Mutant(
        file="batchq/domain/lifecycle/arrays.py",
        breaks="an array's summary keeps the earlier status of a child",
        old="            counts[move.before] -= 1\n",
        new="            pass\n",
    ),
    Mutant(
        file="batchq/domain/lifecycle/arrays.py",
        breaks="a later failure of a sequential array hides an earlier one",
        old="state.failed_index is not None and state.failed_index <= index",
        new="state.failed_index is not None",
    ),
    Mutant(
        file="batchq/domain/scheduling/dependencies.py",
        breaks="a child does not wait for its counterpart",
        old="return Status.PENDING if counterpart is None else counterpart.status",
        new="return Status.SUCCEEDED",
    ),
    Mutant(
        file="batchq/domain/scheduling/resources.py",
        breaks="a second attempt uses no resources",
        old="under_way = None if before is None or before.attempt is None else before.attempt.number",
        new="under_way = None if before is None or not before.attempts else after.attempt.number",
    ),
    Mutant(
        file="batchq/domain/scheduling/capacity.py",
        breaks="consumable resources are never used up",
        old="self._add_ending(self._returning(usage.sums), until=None)",
        new="self._add_ending({of: it for of, it in usage.sums.items() if 'consumable' not in of}, until=None)",
    ),
    Mutant(
        file="batchq/domain/scheduling/fairshare.py",
        breaks="the children of an array are jobs of its share",
        old="active = 0 if after.child is not None else _active_count(after)",
        new="active = _active_count(after)",
    ),
    Mutant(
        file="batchq/engine/containers/start.py",
        breaks="a start without a response is a failed start",
        old="            except (EngineUnknown, Unavailable) as unknown:\n",
        new="            except (EngineUnknown, Unavailable) as unknown:\n"
        "                return (on.StartFailed(attempt=self._tag.attempt, reason='no answer'),)\n",
    ),
    Mutant(
        file="compute/simulated/engine.py",
        breaks="a created container has exited with 0",
        old="return Inspection(tag=tag, state=ContainerState.CREATED)",
        new="return Inspection(tag=tag, state=ContainerState.EXITED, started_at=now, stopped_at=now, exit_code=0)",
    ),
    Mutant(
        file="batchq/engine/containers/translation.py",
        breaks="a lost container has exited with 0",
        old="return (on.ContainerLost(attempt=number, container_key=key),)",
        new="at = __import__('tests.support.builders').support.builders.NOON\n"
        "        return (on.ContainerExited(attempt=number, exit_code=0, started_at=at, stopped_at=at),)",
    ),
    Mutant(
        file="batchq/engine/containers/executor.py",
        breaks="the engine is called again for an unsaved result",
        old="() if ops.start_reported else await",
        new="await",
    ),
    Mutant(
        file="batchq/engine/containers/start.py",
        breaks="a start is not abandoned before its request",
        old="            return await self._abandon()\n        return await self._start()",
        new="            pass\n        return await self._start()",
    ),
    Mutant(
        file="batchq/domain/lifecycle/transitions.py",
        breaks="the created container is forgotten",
        old="replace(attempt_of(job), container_id=event.container_id)",
        new="attempt_of(job)",
    ),
    Mutant(
        file="batchq/domain/lifecycle/containers.py",
        breaks="a created container of several is forgotten",
        old="container_id=event.container_id, created_host_paths=created",
        new="created_host_paths=created",
    ),
    Mutant(
        file="batchq/engine/containers/start.py",
        breaks="a created container is started before it is saved",
        old="await self._save(event)",
        new="asyncio.ensure_future(self._save(event)).add_done_callback(lambda it: it.cancelled() or it.exception())",
    ),
    Mutant(
        file="batchq/domain/lifecycle/status.py",
        breaks="attempts that are left save a stopped job",
        old="    if job.stop is not None and not job.is_pausing:\n        return Verdict.FAIL\n",
        new="",
    ),
    Mutant(
        file="batchq/domain/lifecycle/status.py",
        breaks="a pause ends the job",
        old="job.cancel is not None or ended.forbidden else Verdict.PAUSE",
        new="True else Verdict.PAUSE",
    ),
    Mutant(
        file="batchq/domain/job.py",
        breaks="a pause stops the next attempt too",
        old="order.attempt == self.attempt.number",
        new="True",
    ),
    Mutant(
        file="batchq/domain/lifecycle/arrays.py",
        breaks="the hold of an array does not reach its children",
        old="(holds.order_of(job) if state.passes_hold else None)",
        new="None",
    ),
    Mutant(
        file="batchq/domain/lifecycle/reconcile.py",
        breaks="a start requested before a crash is forgotten",
        old="return (start,) if stop is None else (start, do.AbandonStart(tag=tag))",
        new="return ()",
    ),
    Mutant(
        file="batchq/domain/lifecycle/ladder.py",
        breaks="a checkpoint signal is sent that the job did not declare",
        old="if rules.signal is None:",
        new="if False:",
    ),
    Mutant(
        file="batchq/domain/lifecycle/ladder.py",
        breaks="a checkpoint signal is sent although no checkpoint was requested",
        old="if not checkpoint or rules is None:",
        new="if rules is None:",
    ),
    Mutant(
        file="batchq/domain/lifecycle/ladder.py",
        breaks="SIGKILL does not follow the last step",
        old="next_step_at=None) if it.step + 1 < len(it.steps) else killed(it, now)",
        new="next_step_at=None) if it.step + 1 < len(it.steps) else replace(it, next_step_at=now + KILL_AGAIN)",
    ),
    Mutant(
        file="batchq/domain/lifecycle/stop_order.py",
        breaks="an acknowledged force is not stored",
        old="        forced_at=now,\n",
        new="",
    ),
    Mutant(
        file="batchq/engine/handlers.py",
        breaks="a repeated submission is another job",
        old="return self._earlier_submissions.get(message.key) or unit.submitted.get(message.key, message.job_id)",
        new="return message.job_id",
    ),
]


def main():
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        survivors = [mutant.breaks for mutant, killer in pool.map(report, MUTANTS) if killer is None]
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} mutants killed")
    sys.exit(1 if survivors else 0)


def report(mutant):
    killer = killed_by(mutant)
    print(f"{mutant.breaks:50} {killer or 'SURVIVED'}", flush=True)
    return mutant, killer


def killed_by(mutant):
    """The first seed that violates an invariant, and which; None if every seed passes."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        copy_with(mutant, Path(directory))
        run = subprocess.run([sys.executable, "-c", SEARCH], cwd=directory, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return None
    broken = re.search(r"InvariantViolated: (seed \d+: .{1,90})", run.stderr)
    return broken[1] if broken else run.stderr[-300:]


def copy_with(mutant, directory):
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)
    file = directory / mutant.file
    file.write_text(file.read_text().replace(mutant.old, mutant.new))


if __name__ == "__main__":
    main()
