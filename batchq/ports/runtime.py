"""The port of the container runtime, and its values."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.catalog import Network
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import ContainerEngineName, MachineName, Tag
from batchq.domain.machines import Machine
from batchq.domain.task import TaskContainer
from batchq.domain.use import Use
from batchq.ports.exec_session import ExecCommand, ExecSession
from batchq.ports.logs import LogLine


class RuntimeIdentity(Struct, frozen=True, kw_only=True):
    """The identity of the container engine that the runtime is connected to."""

    #: Constant as long as the container engine has the same data directory, and different for another engine of the
    #: same machine. None if the container engine has no such id. For several engines `joined_ids`, without those that
    #: do not answer.
    id: str | None
    #: The container engine's clock; None if the container engine does not report it.
    time: datetime | None


def joined_ids(ids: Mapping[ContainerEngineName, str]) -> str | None:
    """The id of several engines together: `NAME=ID NAME=ID`; None: no engine has an id."""
    return " ".join(f"{name}={engine_id}" for name, engine_id in sorted(ids.items())) or None


def separate_ids(engine_id: str | None) -> dict[ContainerEngineName, str]:
    """The ids of the engines by name. A server with one engine has its id under the empty name."""
    if engine_id is None or "=" not in engine_id:
        return {} if engine_id is None else {ContainerEngineName(""): engine_id}
    pairs = (part.partition("=") for part in engine_id.split(" "))
    return {ContainerEngineName(name): own for name, _, own in pairs}


class ContainerState(StrEnum):
    """The state of a container."""

    #: The container has never run.
    CREATED = "CREATED"
    #: The container runs, or is paused.
    RUNNING = "RUNNING"
    #: The container has run and has ended.
    EXITED = "EXITED"
    #: The container is being removed.
    GOING = "GOING"


class Created(Struct, frozen=True, kw_only=True):
    """The result of `create`: a new container, or an existing one with the same tag."""

    #: The container engine's id of the container, which is never used again.
    container_id: str
    state: ContainerState
    #: The container is CREATED, and the container engine or the machine went down since it was created: if a start was
    #: requested before that, its program may have run. Only set for a container whose id is in the launch.
    host_lost: bool = False
    #: Host paths of its mounts that did not exist and were created for it, by this call or an earlier one.
    created_host_paths: tuple[str, ...] = ()
    #: The name of the pod that contains it; None: the container engine has no pods.
    pod: str | None = None


MAX_FAILURE = 1024  # characters


class Inspection(Struct, frozen=True, kw_only=True):
    """A container of this instance, as the container engine reports it.

    A survey reports only `tag`, `state` and `machine` reliably; all other fields need an inspection.
    """

    tag: Tag
    state: ContainerState
    #: The machine on which it was started; None: the container engine has only one, or it was not started.
    machine: MachineName | None = None
    #: None for a container that has never run.
    started_at: datetime | None = None
    #: Never before `started_at`; None for a container that has not ended.
    stopped_at: datetime | None = None
    #: None for a container that has not ended.
    exit_code: int | None = None
    out_of_memory: bool = False
    #: The IP address of its node; only for a container that runs on the network of its attempt.
    address: str | None = None
    #: The container failed, or never started, and the container engine or the machine went down since then. Also a
    #: container whose machine has left the engine by an administrator's word, and which the engine still lists.
    host_lost: bool = False
    #: The first MAX_FAILURE characters of the `failure_file` of a container that failed; None: there is none.
    failure: str | None = None


class DeathReport(Struct, frozen=True, kw_only=True):
    """The inspection of a container whose end the container engine reported."""

    tag: Tag
    #: None: the container does not exist any more.
    found: Inspection | None


class LaunchSpec(Struct, frozen=True, kw_only=True):
    """All that is needed to create a container.

    A tag with a `container_key` belongs to an attempt with several containers. They are on a private network of the
    attempt; the containers of a node share one IP address and localhost, and find each other by name. Node N is found
    as `node-N`, and with `named_nodes` of the spec as `algo-(N+1)` too.
    """

    tag: Tag
    spec: ContainerSpec
    #: Environment variables that batchq sets; they take precedence over those of `spec`.
    environment: tuple[tuple[str, str], ...]
    #: The container engine's id of the container that was created for this launch before; None: it has not been
    #: created. That container may have run, so it is not replaced if it does not exist any more.
    container_id: str | None = None
    #: Whether the containers of the node share an IPC namespace.
    share_ipc: bool = False
    #: Whether the containers of the node share a PID namespace.
    share_pids: bool = False
    #: All other containers of the node, started or not.
    beside: tuple[TaskContainer, ...] = ()
    #: The number of nodes of the attempt.
    nodes: int = 1
    #: Whether its node is the main node of the attempt, which is created first.
    is_main_node: bool = True
    #: The compute environment.
    placed_on: str = "local"
    #: The machine on which the container is to be started; None: the container engine has only one.
    machine: MachineName | None = None
    #: The account of the job; empty: no account.
    account: str = ""
    #: The name of the job.
    job_name: str = ""
    #: The network of a container without a `container_key`; None: the runtime's default. A SHARED network is shared by
    #: the containers of the same compute environment and the same account (all accounts, if `account` is empty).
    network: Network | None = None
    #: The name of the container engine's OCI runtime, such as `crun`; None: the server's default.
    oci_runtime: str | None = None
    #: The host path of the job's checkpoint directory, mounted at `domain.training.MOUNT_POINT`; None: it has none.
    checkpoint_directory: str | None = None
    #: What the accounts of the job's owner and authors may use of the machine. Each policy applies; without any the
    #: container may use whatever the server permits.
    allowances: tuple[ContainerPolicy, ...] = ()


class ContainerCalls(Protocol):
    """Operations on single containers of this instance. Containers of others are never touched.

    Every method may raise RuntimeUnknown: the container engine may have executed the call, or may execute it later. No
    method waits for a container to end, and the outcome of a container is only taken from an inspection.
    """

    async def create(self, launch: LaunchSpec) -> Created:
        """Create the container, named by its tag; an existing container of this launch is returned instead.

        Raises ImageMissing; NameTaken; StartRefused, also for what `launch.allowances` do not permit; ContainerGone
        if the container `launch.container_id` does not exist any more; ContainerUnusable if that container can never
        start. A launch without an id replaces such a container.
        """

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        """Pull the image; concurrent calls for the same image share one pull. Raises ImageUnavailable.

        A pull is stopped once all its callers were cancelled. Pulls of one account do not delay those of another.
        """

    async def start(self, tag: Tag) -> None:
        """Start the CREATED container that `create` returned.

        Raises StartRefused; ContainerGone; StartInterrupted; RuntimeUnreachable if the request was not sent;
        StartHadNoEffect if the container engine refused it before it ran the program; StartUnderWay if the container
        engine has accepted it and the program does not run yet. A runtime whose `create` does not need the image, and
        whose engine pulls images itself, also raises ImageUnavailable.
        """

    async def inspect(self, tag: Tag) -> Inspection | None:
        """The present state of one container; None if it does not exist."""

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        """Send `signal` to the container; None: the image's StopSignal, or else SIGTERM.

        `grace` is the time until SIGKILL for the signal that is to end the container. None: the container may go on
        after the signal, as after a request for a checkpoint. An engine that can send a signal only together with a
        stop sends none then.

        A paused container is resumed, so that it can handle the signal. Raises ContainerGone; RuntimeUnreachable if the
        signal was not sent.
        """

    async def kill(self, tag: Tag) -> None:
        """Send SIGKILL. Raises ContainerGone if there is nothing to kill."""

    async def remove(self, tag: Tag) -> None:
        """Remove the container, running or not, with its anonymous volumes. A missing container is success.

        The last container of an attempt is removed together with the attempt's network and shared volumes.
        """


class ContainerRuntime(ContainerCalls, Protocol):
    """The container engine as batchq uses it. Every method may raise RuntimeUnknown."""

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        """Remove the container if it has written nothing, and return None; else return its output, as `logs` does.

        A runtime may return an empty log instead of removing the container. Raises ContainerGone.
        """

    async def survey(self) -> tuple[Inspection, ...]:
        """Every container of this instance, in any state."""

    def deaths(self) -> AbstractAsyncContextManager[AsyncIterator[Tag | DeathReport]]:
        """Subscribe to the container engine's events of ended containers. Events are hints: some are lost or late.

        An item is the inspection made after the event, or only the tag if no inspection was made or it failed. The
        subscription begins when the context is entered. The iterator ends without an error if the container engine
        closes the stream.
        """

    def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        """The container's output later than `after`, in nanoseconds since the epoch. Raises ContainerGone."""

    async def follow(self, tag: Tag, *, after: int) -> AsyncGenerator[Sequence[LogLine], None] | None:
        """As `logs`, and then the output that the container writes, some lines at a time, each of them once.

        It may end at any time; a call with the last timestamp continues. None: the container engine stores enough
        output of the container.
        """

    async def exec(self, tag: Tag, command: ExecCommand) -> ExecSession:
        """Run a command in a running container. Raises ContainerGone; ExecRefused if the runtime cannot run it."""

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        """What these running containers have used by `at`, which is the present; without those that are not measured.

        `containers`: the container engine's ids. None: the runtime measures no container at present. Never raises
        RuntimeUnknown.
        """

    async def machines(self) -> tuple[Machine, ...]:
        """The machines of the container engine, at least one, also those that are cordoned or do not answer."""

    async def lost_before(self) -> datetime | None:
        """Containers that started before this time ended with the container engine or the machine; None: not known."""

    async def identity(self) -> RuntimeIdentity:
        """The identity of the container engine."""

    async def close(self) -> None:
        """Close the connections to the container engine. The containers continue."""
