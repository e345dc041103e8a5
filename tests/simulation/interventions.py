"""A user who pauses and resumes jobs all the time, machines that restart in a pause, and operators after a restore.

Containers vanish, and budgets are nearly spent, while no server runs or the engine is away.
A restore has the data of the moment at which the server ended: nothing is lost, and the next server is in safe mode.
"""

from contextlib import suppress
from decimal import Decimal

from msgspec.structs import replace

from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.enums import FINISHED
from batchq.domain.job import Job
from batchq.errors import BatchqError
from batchq.ports.jobs import Restoration
from batchq.store import job_reads, job_writes
from tests.simulation.budgets import CURRENCY
from tests.simulation.client import NoReply
from tests.simulation.planned_faults import InjectedError
from tests.simulation.server import Server
from tests.simulation.store import nothing
from tests.simulation.submissions import FAIR, QUEUES
from tests.simulation.world import SMALL, World
from tests.support.builders import ADMIN

POLL = 0.4  # seconds between two looks for a job that is being paused


class Interventions:
    def __init__(self, world: World) -> None:
        self._world = world
        self._choices = world.choices
        self._run_log = world.run_log
        world.between_servers = self.between_servers

    def begin(self) -> None:
        """Begin to intervene; every task ends with the world."""
        self._tasks = [
            self._world.spawn(self._pause_and_resume(), "pauses"),
            self._world.spawn(self._restart_machine_in_pauses(), "restarts of the machine"),
            self._world.spawn(self._disconnect_engine(), "absences of the engine"),
            self._world.spawn(self._disturb_machines(), "faults of machines"),
            self._world.spawn(self._disturb_second_engine(), "faults of the second engine"),
            self._world.spawn(self._take_machines_away(), "departures of machines"),
            self._world.spawn(self._leave_safe_mode_now_and_then(), "the operator after a restore"),
        ]

    async def end(self) -> None:
        """End the interventions, and leave safe mode."""
        for task in self._tasks:
            task.cancel()
        for each in self._world.engines:
            each.runtime.faults.unreachable = False
        for machine in self._world.machine.engine.machines:
            self._world.machine.engine.reconnect(machine.name)
        while self._in_safe_mode():
            await self._leave_safe_mode()
            await self._world.clock.sleep(1)

    def between_servers(self) -> None:
        """Restore the data, or remove a container that runs."""
        self._run_log.counts["downtimes under a budget"] += self._world.invariants.budgets.charges_now()
        if self._choices.absences.random() < self._choices.absence_rate:
            self._remove_running_container()
        self._restore()

    def _restore(self) -> None:
        if self._choices.restores():
            job_writes.put_restoration(self._world.connection, Restoration(at=self._world.clock.now()))
            self._run_log.write("the data is restored from a backup")
            self._run_log.counts["restores"] += 1
            self._run_log.counts["restores with paused jobs"] += any(job.hold is not None for job in self._unfinished())

    async def _pause_and_resume(self) -> None:
        rng, interval = self._choices.pauses, self._choices.pause_interval
        while interval is not None:
            await self._world.clock.sleep(rng.uniform(0, 2 * interval))
            jobs = self._unfinished()
            shared = [job for job in jobs if job.spec.queue == FAIR]
            found = rng.choice([jobs, shared])
            if found:
                what = rng.choice(["pause", "pause", "resume_job"])
                job = rng.choice([job for job in found if job.hold is not None] or found if what != "pause" else found)
                self._run_log.counts[f"fair share: {what}"] += job.spec.queue == FAIR
                self._world.spawn(self._hold(what, job), "a user who pauses")

    async def _hold(self, what: str, job: Job) -> None:
        try:
            await self._world.client.hold(what, job.id, patience=self._choices.pauses.choice([None, 30.0, 0.0]))
        except (NoReply, BatchqError) as why:
            self._run_log.write(f"client {what} got {type(why).__name__}")

    async def _restart_machine_in_pauses(self) -> None:
        rng = self._choices.pauses
        while self._choices.machine_restart_rate:
            await self._world.clock.sleep(POLL)
            if any(job.is_pausing for job in self._unfinished()) and rng.random() < self._choices.machine_restart_rate:
                self._run_log.write("the machine restarts in a pause")
                self._run_log.counts["machine restarts in a pause"] += 1
                self._world.machine.runtime.restart_machine()

    async def _disconnect_engine(self) -> None:
        """Let the engine be away while a container vanishes or the machine restarts, and a budget is nearly spent."""
        rng, faults = self._choices.absences, self._world.machine.runtime.faults
        while self._choices.absence_rate:
            await self._world.clock.sleep(rng.uniform(1, 8))
            if rng.random() < 0.5:
                self._world.spawn(self._set_tight_budget(), "a tight budget")
                await self._world.clock.sleep(1)
            self._run_log.write("the engine is disconnected")
            self._run_log.counts["absences"] += 1
            self._run_log.counts["absences under a budget"] += self._world.invariants.budgets.charges_now()
            faults.unreachable = True
            await self._world.clock.sleep(rng.uniform(0, 4))
            vanish = self._remove_running_container
            rng.choice([vanish, vanish, self._world.machine.runtime.restart_machine, nothing])()
            await self._world.clock.sleep(rng.uniform(1, 20))
            faults.unreachable = False

    async def _disturb_machines(self) -> None:
        """Let one machine of several answer no more, with or without its power, until it is back."""
        rng, engine = self._choices.machines, self._world.machine.engine
        while self._choices.machine_fault_rate:
            await self._world.clock.sleep(rng.uniform(1, 30))
            name = rng.choice(engine.machines).name
            if rng.random() < self._choices.machine_fault_rate:
                fault = rng.choice([engine.disconnect, engine.disconnect, engine.power_off])
                self._run_log.write(f"{name}: {fault.__name__}")
                self._run_log.counts[f"machines: {fault.__name__}"] += 1
                fault(name)
                await self._world.clock.sleep(rng.choice([1, 15, 60]))
                self._run_log.write(f"{name} is back")
                engine.reconnect(name)

    async def _disturb_second_engine(self) -> None:
        """Let the second engine be unreachable for a while, let its machines restart, or freeze it."""
        rng, second = self._choices.second_engine, self._world.second
        while self._choices.second_engine_rate and second is not None:
            await self._world.clock.sleep(rng.uniform(1, 20))
            if rng.random() >= self._choices.second_engine_rate:
                continue
            what = rng.choice(["unreachable", "unreachable", "restart", "freeze"])
            self._run_log.write(f"second engine: {what}")
            self._run_log.counts[f"second engine: {what}"] += 1
            if what == "restart":
                second.runtime.restart_machine()
            elif what == "freeze":
                second.freeze(rng.uniform(1, 15))
            else:
                second.runtime.faults.unreachable = True
                await self._world.clock.sleep(rng.choice([1, 15, 60]))
                second.runtime.faults.unreachable = False

    async def _take_machines_away(self) -> None:
        """Let small machines leave with their containers, listed or not. Some return, as with another disk."""
        rng, engine = self._choices.departures, self._world.machine.engine
        while self._choices.departure_rate:
            await self._world.clock.sleep(rng.uniform(1, 30))
            small = [machine for machine in engine.machines if machine.resources == SMALL]
            if small and rng.random() < self._choices.departure_rate:
                machine = rng.choice(small)
                returns = rng.random() < 0.6
                self._run_log.write(f"{machine.name} leaves{' for a while' if returns else ' for good'}")
                self._run_log.counts[f"machines: {'another disk' if returns else 'left for good'}"] += 1
                lost = [tag for tag, container in engine.containers.items() if container.launch.machine == machine.name]
                self._world.invariants.containers.removed_by_hand.update(lost)
                leave = rng.choice([self._world.machine.runtime.remove_machine, engine.lose_machine])
                self._run_log.counts[f"machines: {leave.__name__}"] += 1
                leave(machine.name)
                if returns:
                    await self._world.clock.sleep(rng.choice([0, 5, 60]))
                    self._run_log.write(f"{machine.name} returns with another disk")
                    engine.machines = (*engine.machines, replace(machine, away_since=None))

    def _remove_running_container(self) -> None:
        jobs = self._world.invariants.jobs
        running = [container.tag for job_id in jobs for container in self._world.invariants.containers.live(job_id)]
        if running:
            tag = self._choices.absences.choice(running)
            self._run_log.write(f"{self._run_log.name_of(tag)} is removed while it runs")
            self._world.invariants.containers.removed_by_hand.add(tag)
            self._world.engine_with(tag).runtime.remove_externally(tag)

    async def _set_tight_budget(self) -> None:
        server, rng = self._world.server, self._choices.absences
        key = BudgetKey(BudgetScope.QUEUE, rng.choice(sorted(QUEUES)))
        if server is None or not server.ready:
            return
        known = [status.spent for status in server.engine.budget_statuses() if status.budget.key == key]
        limit = (known[0] if known else Decimal(0)) + Decimal(rng.choice(["0.0005", "0.001", "0.002", "0.005"]))
        with suppress(NoReply, BatchqError, InjectedError):
            await self._world.client.set_budget(Budget(key=key, currency=CURRENCY, hard=limit))

    async def _leave_safe_mode_now_and_then(self) -> None:
        while self._choices.restore_rate:
            await self._world.clock.sleep(self._choices.restore_choices.uniform(1, 30))
            if self._in_safe_mode():
                await self._leave_safe_mode()

    async def _leave_safe_mode(self) -> None:
        with suppress(NoReply, BatchqError, InjectedError):
            await self._world.client.request(_leave)
            self._run_log.write("operator left safe mode")

    def _in_safe_mode(self) -> bool:
        """Whether the present server, or the next one, is in safe mode."""
        return job_reads.restoration(self._world.connection).at is not None

    def _unfinished(self) -> list[Job]:
        return [job for job in self._world.invariants.jobs.values() if job.status not in FINISHED]


async def _leave(server: Server) -> None:
    await server.engine.leave_safe_mode(purge=True, caller=ADMIN)
