"""Runs in which an operator restores backups that are older than the containers on the engine. Decision 0016.

What happened after the backup is lost: the checks forget it too. Then jobs are attached to containers that the checks
do not expect, so that only the invariants hold that a restore promises: no container is stopped without an order,
nothing begins in safe mode, no job has two live containers, and in the end every job is over and nothing is left.
"""

import sqlite3
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from batchq.domain.enums import FINISHED
from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.ports.catalog import CatalogResource
from batchq.ports.jobs import Changes, Restoration
from batchq.store import job_reads, job_writes
from tests.simulation import final_checks
from tests.simulation.choices import NONE
from tests.simulation.container_checks import has, was_forced
from tests.simulation.interventions import Interventions
from tests.simulation.invariants import Invariants, _saved
from tests.simulation.random_scenario import RandomScenario
from tests.simulation.world import World
from tests.support.inline import database_in_memory

CONTAINERS = (dict, list, set, deque, Counter, defaultdict)


class RestoredInvariants(Invariants):
    """The invariants that a restore of an older backup promises."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.signals = _NoChecks()  # a checkpoint signal whose sending is lost with the data is repeated
        self.in_safe_mode = lambda: False

    def snapshot(self) -> list[tuple[Any, Any]]:
        """What the checks know of the stored data, as pairs of an object and a copy of its collections."""
        return [
            (owner, {name: _copied(value) for name, value in vars(owner).items() if isinstance(value, CONTAINERS)})
            for owner in (self, self.history, self.dependencies, self.catalog, self.groups)
        ]

    def roll_back(self, snapshot: list[tuple[Any, Any]]) -> None:
        lost = set(self.jobs)
        for owner, values in snapshot:
            for name, value in values.items():
                _replace(getattr(owner, name), _copied(value))
        for job_id in lost - self.jobs.keys():
            for record in self.containers.of_job(job_id):
                self.orphans[record.tag] = None

    # ------------------------------------------------------------------------------------------------ at each commit

    def committed(self, changes: Changes) -> None:
        self.history.record(changes)
        for job in changes.inserted:
            name = f"{job.spec.name}:{job.child.index}" if job.child else job.spec.name
            self.run_log.set_name(job.id, name)
            self.jobs[job.id] = job
            self.run_log.write(f"{name} {job.status}")
        for job in changes.updated:
            self._change(self.jobs.get(job.id), job)
        for job in changes.inserted:
            self.dependencies.born(job)
        self.dependencies.follows(changes)

    def catalog_changed(self, name: str, resource: CatalogResource | None) -> None:
        """Not checked."""

    def _change(self, before: Job | None, after: Job) -> None:
        if before is None or before.version != after.version:
            self.fail("I22 one writer", after, f"was changed from version {after.version}")
            return
        self._check_finished(before, after)
        self._check_edges(before, after)
        known = len(before.attempts)
        if after.attempts[:known] != before.attempts:
            self.fail("I3 attempts only grow", after, f"{before.attempts} {after.attempts}")
        self._check_exit_codes(before, after)
        self.jobs[after.id] = _saved(after)
        if (after.status, after.stop, len(after.all_attempts)) != (
            before.status,
            before.stop,
            len(before.all_attempts),
        ):
            how = f"{before.status} > {after.status} attempt {len(after.all_attempts)} ({after.status_reason})"
            self.run_log.write(f"{self.run_log.name_of(after.id)} {how}")

    def _check_exit_codes(self, before: Job, after: Job) -> None:
        """I14: the exit code of an attempt is that of one of its containers."""
        for ended in after.attempts[len(before.attempts) :]:
            for part in ended.containers:
                tag = Tag(job_id=after.id, attempt=ended.number, container_key=part.key)
                codes = {record.end.exit_code for record in self.containers.of(tag) if record.ran and record.end}
                if part.started_at is not None and part.exit_code is not None and part.exit_code not in codes:
                    self.fail("I14 an attempt ends as its container did", tag, ended)

    # --------------------------------------------------------------------------------- at each call, at each start

    def engine_called(self, call: str, tag: Tag | None) -> None:
        self._check_call_rate(call, tag)
        if tag is None:
            return
        if call == "remove":
            self.containers.removal_requested(tag)
        job = self.jobs.get(tag.job_id)
        live = any(record.lives(self._now()) for record in self.containers.of(tag))
        if job is None:
            if call in {"signal_stop", "kill", "remove"} and live and self.in_safe_mode():
                self.fail("in safe mode no container of an unknown job is stopped", tag, call)
            return
        under_way = job.attempt is not None and job.attempt.number == tag.attempt and has(job, tag)
        if call in {"signal_stop", "kill"} and under_way and not _is_ordered_to_stop(job, tag):
            self.fail("I15 no container is stopped without an order", tag, call)
        if call == "remove" and live and not was_forced(job) and self.in_safe_mode() and not self._has_ended(job, tag):
            self.fail("in safe mode no live container is removed", tag, job)
        if call == "start" and not live and self.in_safe_mode():
            self.fail("in safe mode nothing begins", tag)

    def _has_ended(self, job: Job, tag: Tag) -> bool:
        return any(attempt.number == tag.attempt for attempt in job.attempts)

    def made(self, tag: Tag) -> None:
        """Not checked."""

    def started(self, tag: Tag) -> None:
        self.run_log.counts["containers started"] += 1
        self.run_log.write(f"container {self.run_log.name_of(tag)} starts")
        live = [record.tag for record in self.containers.live(tag.job_id)]
        if len(live) > len(set(live)) or len({each.attempt for each in live}) > 1:
            self.fail("I4 one live container a job, or a part", tag, live)

    def ran_twice(self, tag: Tag) -> None:
        """Not checked."""

    # ------------------------------------------------------------------------------------------- at each answer

    def terminated(self, job_id: Any) -> None:
        """Not checked: the order may be lost with a restore."""

    cancelled = terminated

    def submitted(self, name: str, job_id: Any) -> None:
        self.acknowledged[job_id] = name


class _NoChecks:
    """Accepts every report."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class OlderBackups(Interventions):
    """As Interventions, but the restored data is older than the end of the server."""

    def begin(self) -> None:
        self._backup: tuple[sqlite3.Connection, list[tuple[Any, Any]]] | None = None
        super().begin()
        self._tasks.append(self._world.spawn(self._back_up(), "backups"))

    async def _back_up(self) -> None:
        while True:
            await self._world.clock.sleep(self._choices.restore_choices.uniform(0.5, 25))
            if not self._in_safe_mode():
                if self._backup is not None:
                    self._backup[0].close()
                copy = database_in_memory(self._world.connection)
                self._backup = copy, self._world.invariants.snapshot()
                self._run_log.write("an operator makes a backup")

    def _restore(self) -> None:
        if (
            self._backup is None
            or self._run_log.counts["older restores"] >= 2
            or not self._choices.restores()
            or self._in_safe_mode()
        ):
            return
        copy, snapshot = self._backup
        known = len(self._world.invariants.jobs)
        copy.backup(self._world.connection)
        self._world.invariants.roll_back(snapshot)
        job_writes.put_restoration(self._world.connection, Restoration(at=self._world.clock.now()))
        self._run_log.write("an older backup is restored")
        self._run_log.counts["older restores"] += 1
        self._run_log.counts["jobs lost by restores"] += known - len(self._world.invariants.jobs)
        self._run_log.counts["containers at older restores"] += sum(
            record.lives(self._world.clock.now()) for record in self._world.invariants.containers.all()
        )


class OlderBackupScenario(RandomScenario):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._interventions = OlderBackups(world)
        world.client.submissions.lasts = (8, 20, 60, None)
        world.invariants.groups.is_inexact = True
        world.invariants.in_safe_mode = lambda: job_reads.restoration(world.connection).at is not None

    async def run(self) -> None:
        await self._begin_and_recover()
        for job_id in self._world.unfinished():
            await self._world.client.end(job_id)
        ends = self._clock.now() + final_checks.SETTLE_TIMEOUT
        await final_checks.until(self._world, lambda: not self._world.unfinished(), ends)
        await self._clock.sleep(60)
        if all(tag.job_id not in self._invariants.jobs for tag in self._left()):
            # The next server finds the containers of lost jobs when it starts: decision 0036.
            self._world.server.leave()
            await self._clock.sleep(1)
            await self._world.ready()
        await final_checks.until(self._world, lambda: not self._left(), ends)
        await self._check()

    async def _use(self) -> None:
        """More requests than in other runs, so that there are containers when a backup is restored."""
        for _ in range(self._choices.client.randint(15, 40)):
            await self._clock.sleep(self._choices.client.uniform(0, 3))
            self._world.spawn(self._world.client.act(), "a user")

    def _left(self) -> set[Tag]:
        return {tag for each in self._world.engines for tag in each.engine.containers}

    async def _check(self) -> None:
        await self._clock.sleep(2)
        store, jobs = self._world.server.store, self._invariants.jobs
        stored = dict(await store.jobs(list(jobs)))
        if stored != jobs:
            self._run_log.fail("I1 what was committed is what is stored", "")
        state = self._world.server.engine.loop.state
        if state.counts.read() != await store.unfinished_counts() or state.active:
            self._run_log.fail("I1 the counts are those of the store", f"{state.counts.read()} {state.active}")
        for key, use in (await store.shares()).items():
            if use.active or use.millicpus:
                self._run_log.fail("I10 the usage of a share is what its jobs hold", f"{key} {use}")
        for job in jobs.values():
            if job.status not in FINISHED:
                self._invariants.fail("I12 everything settles", job)


def _is_ordered_to_stop(job: Job, tag: Tag) -> bool:
    return any(part.key == tag.container_key and part.stop_ordered for part in job.attempt.containers)


def only_older_restores(choices: Any) -> Any:
    """Only restores, faults of the engine and crashes: what follows from the lost data is hard to tell otherwise."""
    choices.restore_rate = 0.8
    choices.clock_set_rate = choices.disk_clock_set_rate = choices.other_engine_rate = choices.budget_rate = NONE
    choices.absence_rate = choices.catalog_rate = choices.limit_change_rate = choices.departure_rate = NONE
    choices.has_second_server = choices.has_second_engine = choices.has_webhook = False
    choices.second_engine_rate = NONE
    choices.luck = replace(choices.luck, restarts=0.15)
    return choices


def _copied(value: Any) -> Any:
    """A copy of a collection and of the collections in it; the values themselves are frozen."""
    if isinstance(value, defaultdict):
        return defaultdict(value.default_factory, {key: _copied(each) for key, each in value.items()})
    if isinstance(value, Counter):
        return Counter(value)
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | set | deque):
        return type(value)(map(_copied, value)) if not isinstance(value, deque) else deque(value, value.maxlen)
    return value


def _replace(collection: Any, content: Any) -> None:
    """Give a collection another content. Other objects have references to it."""
    collection.clear()
    (collection.extend if isinstance(collection, list | deque) else collection.update)(content)
