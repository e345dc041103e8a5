"""The small values that the ports speak in."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from batchq.domain.acts import Act
from batchq.domain.catalog import Network
from batchq.domain.container import ContainerSpec
from batchq.domain.fairshare import ShareKey, ShareUse
from batchq.domain.job import Job, Status
from batchq.domain.names import ConsumableName, JobId, QueueName, Tag
from batchq.domain.people import NOBODY, Allowance, Owner, Reach
from batchq.domain.sweep import Candidates, Progress, Selection, Sweep


class Moment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a job's history: when it came into a status, and what was said of it then."""

    job_id: JobId
    at: datetime
    status: Status
    reason: str | None
    attempt: int | None


class SubmissionKey(Struct, frozen=True, kw_only=True):
    """By this a repeated SubmitJob is known: the client's own mark on the call, who called, and what was asked."""

    principal: str
    invocation_id: str
    body_sha256: str


Age = tuple[datetime, str]
"""When a log stream was created, and its name: in this order streams are listed by age."""


class LogStream(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of one attempt; `name` is as AWS Batch names it, unique. It is its job's owner's."""

    name: str
    tag: Tag
    created_at: datetime
    owner: Owner = NOBODY


class Restoration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of the last time the data was replaced by a backup.

    `at` is there until an operator says that the engine's containers are as they should be. `spared` are those that
    nobody knew when he said so, and that he did not have cleared away; `purged` those that he did.
    """

    at: datetime | None = None
    spared: frozenset[Tag] = frozenset()
    purged: frozenset[Tag] = frozenset()


class ClockAnchor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The clock of the server that was started last, as far as the next server can compare it with its own."""

    #: The boot of the machine, as in `Boot`.
    boot: str
    #: When that boot was, by this clock.
    booted_at: datetime
    #: The first moment that a server of this boot can have stamped, by this clock.
    since: datetime


class EngineIdentity(Struct, frozen=True, kw_only=True):
    """The container engine that answers."""

    #: The same as long as it has its data; None where the engine has no such id.
    id: str | None
    #: Its clock, None where it does not say.
    time: datetime | None


class Finished(NamedTuple):
    """Where a finished job stands among them all, the oldest first: when it ended, in microseconds, and its order."""

    at: int
    order: int


class Pruned(Struct, frozen=True, kw_only=True):
    """How many jobs were forgotten, and behind which to go on; None when nothing that is old enough is left."""

    jobs: int
    after: Finished | None


class Changes(Struct, frozen=True, kw_only=True):
    """All that one turn saves, in one transaction.

    `inserted` are new jobs, `updated` known ones: each `version` is that of the row as it was read; the store writes
    `version + 1`. `submissions` are remembered with `at`; those older than `forget_before` may be forgotten. `shares`
    and `used_up` replace what was kept of that share, and of that NON_REPLENISHABLE resource; `restoration` all of it.
    Which jobs a new one of `sweeps` means is decided here, by all else that is saved; `progress` is of those before.
    `candidates`, by the number of a sweep, spare the store to look for jobs that have not changed since they were read.
    `acts` are those by which all this was asked for.
    """

    inserted: tuple[Job, ...] = ()
    updated: tuple[Job, ...] = ()
    history: tuple[Moment, ...] = ()
    submissions: tuple[tuple[SubmissionKey, JobId, datetime], ...] = ()
    shares: tuple[tuple[ShareKey, ShareUse], ...] = ()
    used_up: tuple[tuple[ConsumableName, int], ...] = ()
    streams: tuple[LogStream, ...] = ()
    restoration: Restoration | None = None
    #: The container engine that attempts are on, if it is another than before.
    engine_id: str | None = None
    sweeps: tuple[tuple[Sweep, Selection], ...] = ()
    candidates: tuple[tuple[int, Candidates], ...] = ()
    progress: tuple[Progress, ...] = ()
    acts: tuple[Act, ...] = ()
    forget_before: datetime | None = None

    @property
    def empty(self) -> bool:
        rows = (self.inserted, self.updated, self.history, self.submissions, self.streams, self.shares, self.used_up)
        kept = (self.restoration, self.engine_id)
        return not any(rows) and not any(it is not None for it in kept) and not self.sweeps and not self.progress


class ChildQuery(Struct, frozen=True, kw_only=True):
    """The children of an array, highest index first. None is every status; `before` the `order` to go on below.

    Where they are `over`, those that wait count as FAILED.
    """

    parent: JobId
    status: Status | None = None
    limit: int
    before: int | None = None
    over: bool = False


class NeedQuery(Struct, frozen=True, kw_only=True):
    """Jobs that need a consumable resource, newest first, finished ones too. None is any; a name as in JOB_NAME.

    `over` as in JobQuery.
    """

    resource: ConsumableName
    status: Status | None = None
    name: str | None = None
    limit: int
    before: int | None = None
    reach: Reach | None = None
    over: frozenset[int] = frozenset()


class Snapshot(Struct, frozen=True, kw_only=True):
    """GetJobQueueSnapshot: who is next in a queue, in dispatch order and since when, and what its jobs hold.

    `shares` are those that hold most, with their thousandths of a vCPU, most first. Both they and `active_shares` are
    of a queue with a policy.
    """

    jobs: tuple[tuple[JobId, datetime], ...]
    updated_at: datetime
    millicpus: int
    shares: tuple[tuple[str, int], ...] = ()
    active_shares: int = 0


class Filter(StrEnum):
    """ListJobs' filters; SHARE_IDENTIFIER alone goes together with a status."""

    JOB_NAME = "JOB_NAME"
    JOB_DEFINITION = "JOB_DEFINITION"
    BEFORE_CREATED_AT = "BEFORE_CREATED_AT"
    AFTER_CREATED_AT = "AFTER_CREATED_AT"
    SHARE_IDENTIFIER = "SHARE_IDENTIFIER"


class JobQuery(Struct, frozen=True, kw_only=True):
    """Jobs of one queue, newest first (by `order`, descending).

    JOB_NAME: case-insensitive, a trailing `*` is any rest. JOB_DEFINITION: case-sensitive; `name` (all revisions),
    `name*`, or `name:revision`. BEFORE/AFTER_CREATED_AT: milliseconds since the epoch as text, exclusive. Several
    values are alternatives. `status` None is every status. `before` is the `order` to go on below. Of jobs outside a
    `reach` nothing is told. Jobs of the orders `over` that are PENDING count as FAILED.
    """

    queue: QueueName
    status: Status | None = None
    filter: Filter | None = None
    values: tuple[str, ...] = ()
    limit: int
    before: int | None = None
    reach: Reach | None = None
    over: frozenset[int] = frozenset()


class ContainerState(StrEnum):
    """CREATED never ran. RUNNING may be paused. GOING is being removed. EXITED ran, and is over."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    GOING = "GOING"


class Made(Struct, frozen=True, kw_only=True):
    """A container that was made, or adopted: the engine's id of it, which no other will ever have."""

    container: str
    state: ContainerState
    #: Host paths of its mounts that did not exist and were created for it, by this call or one before it.
    created_host_paths: tuple[str, ...] = ()


class Found(Struct, frozen=True, kw_only=True):
    """A container of ours, as the engine tells it.

    From a survey only `tag` and `state` are sure. From an inspection a container that ran has `started_at`, one that
    is over also `stopped_at` (never before `started_at`) and `exit_code`, and one that runs on a network of its attempt
    its node's `address`. `host_lost`: it failed, or never began, and its engine or machine went down since.
    """

    tag: Tag
    state: ContainerState
    started_at: datetime | None = None
    stopped_at: datetime | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    address: str | None = None
    host_lost: bool = False


class Looked(Struct, frozen=True, kw_only=True):
    """What was found of a container when news of its end came; None: it is not there."""

    tag: Tag
    found: Found | None


class Launch(Struct, frozen=True, kw_only=True):
    """All that is needed to make a container: its tag, what it is made of, and batchq's own variables, which win.

    A tag with a `part` is of an attempt with several containers: they are on a private network of the attempt, those of
    a node share one address (and localhost), each is found by its name, and `share_ipc`, `share_pids` hold for a node.
    `beside` are the names of the other containers of its node, begun or not: all who are launched for a node know each
    other. Another node N is found as `node-N`. `container`: the engine's id of the one that was made for it before. It
    may have run, so when it is not there any more none is made in its place. `network` is what a container that is
    alone sees of it (None: what the runtime was made for); where it is SHARED, it is so with those `placed_on` the same
    compute environment that are of the same `account` (empty: of all accounts). `allowance` is what its account may
    have of the machine, None whatever the server gives.
    """

    tag: Tag
    spec: ContainerSpec
    environment: tuple[tuple[str, str], ...]
    container: str | None = None
    share_ipc: bool = False
    share_pids: bool = False
    beside: tuple[str, ...] = ()
    placed_on: str = "local"
    account: str = ""
    network: Network | None = None
    allowance: Allowance | None = None


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of output, without its end. `at` in nanoseconds since the epoch, as the engine stamped it."""

    at: int
    message: str


class KeptLine(Struct, frozen=True, kw_only=True):
    """A line in the archive. `at` never goes back from line to line; `stamped`, the engine's own, may.

    `position` is where it begins: an opaque integer that grows from line to line, and stays the line's for ever.
    """

    position: int
    at: int
    stamped: int
    message: str


class LogPage(Struct, frozen=True, kw_only=True):
    """Lines with the positions just before the first and just after the last of them."""

    lines: tuple[KeptLine, ...]
    start: int
    end: int


class StatusChanged(Struct, frozen=True, kw_only=True):
    """A saved change of a job's status."""

    before: Status | None
    job: Job
