"""The container runtime: its port and its values."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.catalog import (
    Network,
)
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.ids import Tag
from batchq.ports.logs import LogLine


class EngineIdentity(Struct, frozen=True, kw_only=True):
    """The container engine that answers."""

    #: The same as long as it has its data; None where the engine has no such id.
    id: str | None
    #: Its clock, None where it does not say.
    time: datetime | None


class ContainerState(StrEnum):
    """CREATED never ran. RUNNING may be paused. GOING is being removed. EXITED ran, and is over."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    GOING = "GOING"


class Created(Struct, frozen=True, kw_only=True):
    """A container that was made, or adopted: the engine's id of it, which no other will ever have."""

    container: str
    state: ContainerState
    #: It is CREATED, and the engine or the machine went down since it was made: if a start was requested before,
    #: its program may have run. Only for a container that the launch names.
    host_lost: bool = False
    #: Host paths of its mounts that did not exist and were created for it, by this call or one before it.
    created_host_paths: tuple[str, ...] = ()


class Inspection(Struct, frozen=True, kw_only=True):
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


class DeathReport(Struct, frozen=True, kw_only=True):
    """What was found of a container when news of its end came; None: it is not there."""

    tag: Tag
    found: Inspection | None


class LaunchSpec(Struct, frozen=True, kw_only=True):
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
    allowance: ContainerPolicy | None = None


class ContainerCalls(Protocol):
    """What is asked about single containers. Knows only those of its own instance; never touches any other.

    Every method may raise EngineUnknown: the call may have been carried out, or may be later. No method waits for a
    container to end, and none takes an outcome from anything but an inspection.
    """

    async def create(self, launch: LaunchSpec) -> Created:
        """Make the container, named by its tag; one that is there already is adopted.

        Raises ImageMissing, NameTaken, StartRefused, also for what its allowance has not; ContainerGone when the one
        that the launch names is not there.
        """

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        """Get the image; many calls for one image at once pull it once. Raises ImageUnavailable.

        A pull whose callers were all cancelled is stopped. No account's pulls delay those of another.
        """

    async def start(self, tag: Tag) -> None:
        """Start a container that is CREATED: the one that `create` answered.

        Raises StartRefused; ContainerGone; StartInterrupted; EngineUnreachable where the request was not sent.
        """

    async def inspect(self, tag: Tag) -> Inspection | None:
        """The truth about one container, None if there is none."""

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        """Deliver it, or the image's StopSignal, or SIGTERM; a paused container is resumed. Raises ContainerGone."""

    async def kill(self, tag: Tag) -> None:
        """SIGKILL. Raises ContainerGone when there is nothing to kill."""

    async def remove(self, tag: Tag) -> None:
        """Remove it with its anonymous volumes, alive or dead. One that is not there is success.

        With the last container of an attempt go its network and the volumes its containers shared.
        """


class ContainerRuntime(ContainerCalls, Protocol):
    """Where containers run. Every method may raise EngineUnknown."""

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        """All that it wrote, as `logs` tells it; None if it wrote nothing, and is removed by it. Raises ContainerGone.

        A runtime may also leave one that wrote nothing.
        """

    async def survey(self) -> tuple[Inspection, ...]:
        """Every container of this instance, in whatever state."""

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        """The engine's news of containers that ended: a hint, which may be missing, late, or twice.

        With it comes what an inspection found since, or the tag alone where none was made, or answered.

        Entered, it listens. The iterator ends (without an error) when the engine closes the stream.
        """

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        """What the container wrote, stamped later than `after`. Raises ContainerGone."""

    async def capacity(self) -> Resources:
        """What the engine's machine has in all."""

    async def lost_before(self) -> datetime | None:
        """Containers that began before this have not outlived the engine, or the machine. None if it cannot be told."""

    async def identity(self) -> EngineIdentity:
        """Which engine answers."""

    async def close(self) -> None: ...
