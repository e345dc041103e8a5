"""Every random decision of one run: fault rates, faults, and requests of users. Equal seeds give equal runs."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import NamedTuple
from uuid import UUID

from batchq.compute.simulated.runtime import LOST_REPLY, NO_EFFECT, Fault
from batchq.domain.ids import JobId, Tag
from batchq.ports.jobs import Changes

NONE = 0.0
A_MOMENT = 0.001  # seconds
UNLIMITED = 1000.0  # vCPUs: there is an account, and its limit is never reached
CHANGES = frozenset({"create", "start", "signal_stop", "kill", "remove", "pull"})


class Point(NamedTuple):
    """A point at which the server may be killed: before, during or after a call of the engine, or a commit."""

    when: str
    what: str
    about: Tag | Changes | None = None


class TransactionFault(StrEnum):
    """How a transaction fails: before it wrote anything, after that, or by a conflict."""

    FULL = "database or disk is full"
    WRITTEN = "disk I/O error"
    CONFLICT = "another has changed it"


@dataclass(frozen=True, kw_only=True)
class FaultRates:
    """The probability of each kind of fault. Most runs exclude some kinds, so that others are not hidden."""

    lost_replies: float = NONE
    slow: float = NONE
    crash: float = NONE
    failed_commits: float = NONE
    failed_reads: float = NONE
    death_report_faults: float = NONE
    manual_changes: float = NONE
    engine_outages: float = NONE
    restarts: float = NONE


def luck(choices: Random) -> FaultRates:
    return FaultRates(
        lost_replies=choices.choice([NONE, 0.05, 0.13, 0.3]),
        slow=choices.choice([NONE, 0.05, 0.2]),
        crash=choices.choice([NONE, 0.008, 0.015, 0.03]),
        failed_commits=choices.choice([NONE, 0.03, 0.15]),
        failed_reads=choices.choice([NONE, NONE, 0.02]),
        death_report_faults=choices.choice([NONE, 0.2, 0.6, 1.0]),
        manual_changes=choices.choice([NONE, NONE, 0.3]),
        engine_outages=choices.choice([NONE, 0.5, 1.0]),
        restarts=choices.choice([NONE, 0.2, 0.5]),
    )


NO_FAULTS = FaultRates()


class Choices:
    """One random generator for each part of the simulation, so that a change in one does not change the others."""

    def __init__(self, seed: int) -> None:
        self.world = Random(f"{seed} world")
        self.client = Random(f"{seed} client")
        self.engine = Random(f"{seed} engine")
        self.store = Random(f"{seed} store")
        self.ids = Random(f"{seed} ids")
        self.sweeps = Random(f"{seed} sweeps")
        self.bulk_stop_rate = self.sweeps.choice([NONE, NONE, 0.1, 0.3])
        #: Checkpoints, and how jobs are stopped.
        self.stop_steps = Random(f"{seed} ladders")
        self.holds = Random(f"{seed} holds")
        #: How often a user holds, pauses, releases or resumes a job, or drains a queue.
        self.hold_rate = self.holds.choice([NONE, 0.2, 0.5])
        self.groups = Random(f"{seed} groups")
        #: How often a job is in a group.
        self.group_rate = self.groups.choice([NONE, NONE, 0.4, 0.9])
        self.budgets = Random(f"{seed} budgets")
        #: How often a user sets or removes a budget.
        self.budget_rate = self.budgets.choice([NONE, NONE, 0.2, 0.5])
        self.pauses = Random(f"{seed} pauses")
        #: Mean seconds between two requests of a user who pauses and resumes jobs; None: there is no such user.
        self.pause_interval = self.pauses.choice([None, None, 0.7, 3.0])
        #: How often the machine restarts while a job is being paused.
        self.machine_restart_rate = self.pauses.choice([NONE, NONE, 0.05, 0.3])
        self.restore_choices = Random(f"{seed} restores")
        #: How often the data is restored between two servers.
        self.restore_rate = self.restore_choices.choice([NONE, NONE, NONE, 0.3])
        self.absences, self.engines = Random(f"{seed} absences"), Random(f"{seed} engines")
        #: How often a running container is removed between two servers; above 0 the engine is also away at times.
        self.absence_rate = self.absences.choice([NONE, 0.5])
        self.looks, self.conflicts = Random(f"{seed} looks"), Random(f"{seed} crossings")
        self.conflict_rate = self.conflicts.choice([NONE, 0.02, 0.1])
        self.other_engine_rate = self.engines.choice([NONE, NONE, 0.1, 0.3])
        self.clocks = Random(f"{seed} clocks")
        #: How often the machine's clock is set between two servers.
        self.clock_set_rate = self.clocks.choice([NONE, NONE, 0.3, 0.7])
        self.disk_clocks = Random(f"{seed} disk clocks")
        #: How often the clock of the checkpoints' disk is set while containers run.
        self.disk_clock_set_rate = self.disk_clocks.choice([NONE, 0.3, 0.7])
        self.second_servers = Random(f"{seed} twins")
        #: Whether a second server of the same instance runs containers on the engine.
        self.has_second_server = self.second_servers.random() < 0.3 and not self.restore_rate
        self.engine_kills = Random(f"{seed} engine ends")
        #: How often the engine is killed in a start.
        self.engine_kill_rate = self.engine_kills.choice([NONE, NONE, 0.03, 0.1])
        self.machines, self.second_engine = Random(f"{seed} machines"), Random(f"{seed} second engine")
        #: How many machines the engine has.
        self.machine_count = self.machines.choice([1, 1, 2, 3, 5])
        #: How often a machine of several stops answering, or loses its power.
        self.machine_fault_rate = self.machines.choice([NONE, 0.3, 0.8]) if self.machine_count > 1 else NONE
        #: Whether the environment `east` selects machines by a label.
        self.selects_by_label = self.machine_count > 1 and self.machines.choice([True, False])
        #: Whether the environment `west` is on a second engine.
        self.has_second_engine = self.second_engine.random() < 0.3
        #: How often the second engine is unreachable, or its machines restart.
        self.second_engine_rate = self.second_engine.choice([NONE, 0.3, 0.8]) if self.has_second_engine else NONE
        if self.has_second_engine:
            self.other_engine_rate = NONE
        self.departures, self.webhooks = Random(f"{seed} departures"), Random(f"{seed} webhooks")
        #: How often a small machine leaves the engine, for good or until it returns under its name without containers.
        self.departure_rate = self.departures.choice([NONE, 0.3, 0.6]) if self.machine_count > 1 else NONE
        self.luck = luck(self.world)
        #: vCPUs that the jobs of an account may have in use together.
        self.account_limit: float | None = Random(f"{seed} accounts").choice([None, 2.0, 4.0])
        if self.budget_rate and self.account_limit is None:
            self.account_limit = UNLIMITED
        self.catalog, self.limits = Random(f"{seed} catalog"), Random(f"{seed} limits")
        #: How often a user changes a queue, an environment or another resource, or deletes it and creates it again.
        self.catalog_rate = self.catalog.choice([NONE, NONE, 0.1, 0.3])
        #: How often the limit of the account is changed.
        self.limit_change_rate = self.limits.choice([NONE, 0.3]) if self.account_limit else NONE

        #: Whether a webhook receives all events.
        self.has_webhook = self.webhooks.random() < 0.4

    def job_id(self) -> JobId:
        """The id of the next submitted job, from the seed: order by id is the same in each run."""
        return JobId(str(UUID(int=self.ids.getrandbits(128), version=4)))

    def stop_faults(self) -> None:
        """No fault occurs from here on."""
        self.luck = NO_FAULTS

    @property
    def faults_occur(self) -> bool:
        return self.luck is not NO_FAULTS

    def changes_engine(self) -> bool:
        """Whether the next server is started on another container engine."""
        return self.luck is not NO_FAULTS and self.engines.random() < self.other_engine_rate

    def restores(self) -> bool:
        """Whether the data is restored before the next server starts."""
        return self.luck is not NO_FAULTS and self.restore_choices.random() < self.restore_rate

    def sets_clock(self) -> bool:
        """Whether the machine's clock is set before the next server starts."""
        return self.luck is not NO_FAULTS and self.clocks.random() < self.clock_set_rate

    def steps_disk_clock(self, *, is_awaited: bool) -> timedelta:
        """How far the clock of the checkpoints' disk is set ahead or back now.

        `is_awaited`: whether a job waits for a final checkpoint. That is rare, so the clock is then always set if it is
        ever set in this run.
        """
        rate = 1.0 if is_awaited and self.disk_clock_set_rate else self.disk_clock_set_rate
        if self.luck is NO_FAULTS or self.disk_clocks.random() >= rate:
            return timedelta()
        return timedelta(seconds=self.disk_clocks.choice([-1, 1, self.disk_clocks.randint(-7200, 7200)]))

    def skew(self) -> timedelta:
        """How far the machine's clock is ahead: whole seconds, so that two never differ by less than is noticed."""
        return timedelta(seconds=self.clocks.choice([0, self.clocks.randint(-7200, 7200)]))

    def crashes(self, point: Point) -> bool:
        """Whether the server dies at this point."""
        return self.luck.crash > 0 and self.world.random() < self.luck.crash

    def patience(self) -> float | None:
        """Seconds that a user waits for an answer."""
        return self.client.choice([None, None, None, 30.0, 0.0, 0.01])

    def grace(self) -> float:
        """Seconds between a stop signal and the kill, of all jobs of this world."""
        return self.world.choice([0, 2, 6])

    def downtime(self) -> float:
        """Seconds until the next server starts."""
        return self.world.choice([0, 0.5, 3, 20])

    def fault(self, call: str) -> Fault | None:
        """The fault of a call of the engine."""
        if self.engine.random() >= self.luck.lost_replies:
            return None
        late = Fault(takes_effect=True, delay=self.engine.uniform(0.1, 20))
        return self.engine.choice([NO_EFFECT, LOST_REPLY, late]) if call in CHANGES else NO_EFFECT

    def kills_engine(self, call: str) -> bool:
        """Whether the engine is killed in this call, while the program runs and that is not saved."""
        return call == "start" and self.luck is not NO_FAULTS and self.engine_kills.random() < self.engine_kill_rate

    def delay(self, call: str) -> float:
        """Seconds that a call of the engine takes."""
        return A_MOMENT if self.engine.random() >= self.luck.slow else self.engine.uniform(0.5, 8)

    def death_delays(self) -> tuple[float, ...]:
        """After how many seconds the next death is reported, once for each number."""
        usual = self.engine.random() >= self.luck.death_report_faults
        delays = [(), (0.0, 0.5), (3.0,), (0.0, 0.0, 7.0), (self.engine.uniform(0, 2),)]
        return (0.0,) if usual else self.engine.choice(delays)

    def reports_inspection(self) -> bool:
        """Whether the next death report includes an inspection."""
        return self.looks.random() < 0.5

    def transaction_fault(self) -> TransactionFault | None:
        """Whether a transaction fails, and how. After a conflict the server reloads its state."""
        if self.luck is not NO_FAULTS and self.conflicts.random() < self.conflict_rate:
            return TransactionFault.CONFLICT
        if self.store.random() >= self.luck.failed_commits:
            return None
        return TransactionFault.FULL if self.store.random() < 0.5 else TransactionFault.WRITTEN
