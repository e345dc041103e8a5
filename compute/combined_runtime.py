"""Several container runtimes as one. Each machine belongs to one of them; a call goes to the runtime of its container.

A survey asks each runtime for its containers, its machines and the identity of its engine. A runtime that does not
reply to all of that is silent until a later survey: its containers are in no survey, its machines do not answer, and
its replies prove no absence. A survey waits only briefly for a silent runtime, which may hang until the timeout of its
calls. The names of all machines must be different.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from batchq.compute.shared import EventQueue
from batchq.domain.container import Resources
from batchq.domain.ids import ContainerEngineName, MachineName, Tag
from batchq.domain.machines import LOCAL, Machine
from batchq.domain.use import Use
from batchq.errors import ContainerGone, ImageMissing, RuntimeUnknown, RuntimeUnreachable, StartInterrupted
from batchq.ports.clock import Clock
from batchq.ports.exec_session import ExecCommand, ExecSession
from batchq.ports.logs import LogLine
from batchq.ports.runtime import (
    ContainerRuntime,
    Created,
    DeathReport,
    Inspection,
    LaunchSpec,
    RuntimeIdentity,
    joined_ids,
)

log = logging.getLogger(__name__)

OPEN_TIMEOUT = 5.0  # seconds for which a subscription waits for the runtimes that do not answer
SILENT_TIMEOUT = 1.0  # seconds for which a survey waits for a runtime that was silent before
REOPEN_PAUSE = 1.0  # seconds before the next try to subscribe to one of them


class Member(Struct, kw_only=True, eq=False):
    """One of the runtimes, and what is known of it."""

    name: ContainerEngineName
    runtime: ContainerRuntime
    #: As reported last; empty: it has not answered since the server began.
    machines: tuple[Machine, ...] = ()
    #: Since when it is silent, as at first; None: it replied to the last survey.
    silent_since: datetime | None
    #: What its engine reported last; None: nothing yet.
    identity: RuntimeIdentity | None = None
    #: Whether its silence has been logged.
    is_logged: bool = False
    #: The survey of a silent engine, which may last longer than that of the others; None: it does not run.
    probe: "asyncio.Task[tuple[Inspection, ...]] | None" = None

    async def survey(self) -> tuple[Inspection, ...]:
        """Survey the engine, and store its machines and its identity. Raises RuntimeUnknown."""
        found = await self.runtime.survey()
        machines = await self.runtime.machines()
        before = await self.runtime.lost_before()
        identity = await self.runtime.identity()
        self.machines = tuple(replace(machine, lost_before=before) for machine in machines)
        self.identity = identity
        return found


class CombinedRuntime:
    """The runtime port. A survey fails only if no runtime answers."""

    def __init__(self, runtimes: Mapping[ContainerEngineName, ContainerRuntime], clock: Clock) -> None:
        """`runtimes`: by name; environments that name no engine select machines of the first one."""
        now = clock.now()
        self._members = [Member(name=name, runtime=runtime, silent_since=now) for name, runtime in runtimes.items()]
        self._clock = clock
        #: The members of containers that this process has created or seen.
        self._containers: dict[Tag, Member] = {}
        #: The members of all machines that were ever reported.
        self._machines: dict[MachineName, Member] = {}
        #: The members that lack an image, by image.
        self._lacking: dict[str, list[Member]] = {}
        #: The containers that were created since the last survey began.
        self._created: set[Tag] = set()

    async def create(self, launch: LaunchSpec) -> Created:
        member = self._containers[launch.tag] = self._member_of_launch(launch)
        self._created.add(launch.tag)
        try:
            return await member.runtime.create(launch)
        except ImageMissing:
            lacking = self._lacking.setdefault(launch.spec.image, [])
            if member not in lacking:
                lacking.append(member)
            raise

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        """Pull the image for the runtimes whose `create` lacked it."""
        for member in tuple(self._lacking.get(image, self._members)):
            await member.runtime.pull(image, platform, account=account)
        self._lacking.pop(image, None)

    async def start(self, tag: Tag) -> None:
        await (await self._existing(tag)).runtime.start(tag)

    async def inspect(self, tag: Tag) -> Inspection | None:
        """The state of a container. An engine that is silent, or was replaced, does not prove its absence."""
        member = self._containers.get(tag)
        if member is None:
            return await self._search(tag)
        found = await member.runtime.inspect(tag)
        if found is None and await self._is_silent(member):
            raise RuntimeUnknown(f"container engine {member.name} does not answer: container {tag} may be there")
        return found

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        await (await self._existing(tag)).runtime.signal_stop(tag, signal, grace=grace)

    async def kill(self, tag: Tag) -> None:
        await (await self._existing(tag)).runtime.kill(tag)

    async def remove(self, tag: Tag) -> None:
        if tag in self._containers or await self._search(tag) is not None:
            await self._containers[tag].runtime.remove(tag)
            self._containers.pop(tag, None)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        lines = await (await self._existing(tag)).runtime.remove_silent(tag)
        if lines is None:
            self._containers.pop(tag, None)
        return lines

    async def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        async for line in (await self._existing(tag)).runtime.logs(tag, after=after):
            yield line

    async def follow(self, tag: Tag, *, after: int) -> AsyncGenerator[Sequence[LogLine], None] | None:
        return await (await self._existing(tag)).runtime.follow(tag, after=after)

    async def exec(self, tag: Tag, command: ExecCommand) -> ExecSession:
        return await (await self._existing(tag)).runtime.exec(tag, command)

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        """None: no runtime measures containers at present."""
        uses: dict[Tag, Use] | None = None
        for member in self._members:
            own = {tag: each for tag, each in containers.items() if self._containers.get(tag) is member}
            measured = await member.runtime.measure(own, at=at)
            if measured is not None:
                uses = {**(uses or {}), **measured}
        return uses

    async def survey(self) -> tuple[Inspection, ...]:
        recent, self._created = self._created, set()
        replies = await asyncio.gather(*(self._survey_of(member) for member in self._members), return_exceptions=True)
        listed: dict[Tag, Member] = {}
        found: list[Inspection] = []
        for member, reply in zip(self._members, replies, strict=True):
            if isinstance(reply, BaseException):
                self._record_silence(member, reply)
            else:
                self._record_reply(member)
                listed |= dict.fromkeys((inspection.tag for inspection in reply), member)
                found += reply
        if all(member.silent_since is not None for member in self._members):
            raise next(reply for reply in replies if isinstance(reply, RuntimeUnknown))
        kept = {tag for tag, member in self._containers.items() if member.silent_since is not None}
        kept |= recent | self._created
        self._containers = {tag: member for tag, member in self._containers.items() if tag in kept} | listed
        return tuple(found)

    async def _survey_of(self, member: Member) -> tuple[Inspection, ...]:
        """Survey one engine. Raises RuntimeUnknown, after SILENT_TIMEOUT if the engine did not reply before.

        The survey of a silent engine continues after that. Its late reply is not used, because containers may have been
        created since it began: the engine is surveyed again.
        """
        if not member.is_logged:
            return await member.survey()
        is_new = member.probe is None
        if member.probe is None:
            member.probe = asyncio.create_task(member.survey(), name=f"survey of {member.name}")
            member.probe.add_done_callback(lambda done: done.cancelled() or done.exception())  # it counts as retrieved
        probe = member.probe
        timeout = asyncio.ensure_future(self._clock.sleep(SILENT_TIMEOUT))
        try:
            await asyncio.wait((probe, timeout), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timeout.cancel()
        if not probe.done():
            raise RuntimeUnreachable(f"container engine {member.name} does not reply")
        member.probe = None
        found = probe.result()
        return found if is_new else await member.survey()

    async def machines(self) -> tuple[Machine, ...]:
        """The machines as of the last survey."""
        if all(member.silent_since is not None for member in self._members):
            await self.survey()
        machines: dict[MachineName, Machine] = {}
        for member in self._members:
            for machine in self._reported(member):
                if machine.name in machines:
                    log.error(
                        "machine %s of %s is ignored: another engine has that name too", machine.name, member.name
                    )
                else:
                    machines[machine.name] = machine
        return tuple(machines.values())

    async def lost_before(self) -> datetime | None:
        """None: each machine has its own time."""
        return None

    async def identity(self) -> RuntimeIdentity:
        """The present ids of the engines that are not silent, and the clock of the first of them."""
        asked = [member for member in self._members if member.silent_since is None]
        if not asked:
            raise RuntimeUnreachable("no container engine answers")
        replies = await asyncio.gather(*(member.runtime.identity() for member in asked))
        ids = {member.name: reply.id for member, reply in zip(asked, replies, strict=True) if reply.id is not None}
        return RuntimeIdentity(id=joined_ids(ids), time=replies[0].time)

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        """The deaths of all runtimes that answer. It ends when one of them ends, and when another one answers later."""
        queue = EventQueue()
        opened = {member.name: asyncio.get_running_loop().create_future() for member in self._members}
        tasks = [
            asyncio.create_task(self._follow(member, queue, opened[member.name]), name=f"deaths of {member.name}")
            for member in self._members
        ]
        try:
            await asyncio.wait(opened.values(), timeout=OPEN_TIMEOUT)
            failures = [future.exception() for future in opened.values() if future.done()]
            if None not in failures:
                raise next(filter(None, failures), RuntimeUnreachable("no container engine answers"))
            yield queue
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for future in opened.values():
                future.cancel()

    async def close(self) -> None:
        probes = [member.probe for member in self._members if member.probe is not None]
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)
        await asyncio.gather(*(member.runtime.close() for member in self._members))

    async def _follow(self, member: Member, queue: EventQueue, opened: "asyncio.Future[None]") -> None:
        """Forward the deaths of one member, then end the queue.

        A member that cannot be subscribed to is tried again. If it is opened late, the queue ends: a survey must follow
        the beginning of each subscription.
        """
        while True:
            is_open = False
            try:
                async with member.runtime.deaths() as deaths:
                    is_open = True
                    if opened.done():
                        break
                    opened.set_result(None)
                    async for death in deaths:
                        queue.put_nowait(death)
                    break
            except RuntimeUnknown as unknown:
                log.debug("the event stream of container engine %s failed: %s", member.name, unknown)
                if is_open:
                    break
                if not opened.done():
                    opened.set_exception(unknown)
                    opened.exception()  # it counts as retrieved
            await self._clock.sleep(REOPEN_PAUSE)
        queue.put_nowait(None)

    def _record_silence(self, member: Member, why: BaseException) -> None:
        """Raises any error but RuntimeUnknown."""
        if not isinstance(why, RuntimeUnknown):
            raise why
        if not member.is_logged:
            log.warning("container engine %s does not answer; its machines take no jobs: %s", member.name, why)
        member.is_logged, member.silent_since = True, member.silent_since or self._clock.now()

    def _record_reply(self, member: Member) -> None:
        if member.silent_since is not None:
            log.info("container engine %s answers: machines=%d", member.name, len(member.machines))
        member.is_logged, member.silent_since = False, None
        self._machines |= {machine.name: member for machine in member.machines}

    async def _is_silent(self, member: Member) -> bool:
        """Whether the engine did not answer the last survey, or was replaced since. Raises RuntimeUnknown."""
        if member.silent_since is not None:
            return True
        known, present = member.identity, await member.runtime.identity()
        return known is not None and None not in (present.id, known.id) and present.id != known.id

    def _reported(self, member: Member) -> tuple[Machine, ...]:
        """The machines of a member, with what is known of their engine."""
        known = member.machines or (
            Machine(
                name=MachineName(member.name),
                resources=Resources(millicpus=0, memory_mib=0),
                is_enforced=True,
                is_whole_engine=True,
            ),
        )
        return tuple(
            replace(
                machine,
                engine=member.name,
                is_of_first_engine=member is self._members[0],
                is_unlisted=member.silent_since is not None,
                away_since=machine.away_since or member.silent_since,
            )
            for machine in known
        )

    def _member_of_launch(self, launch: LaunchSpec) -> Member:
        """Raises RuntimeUnreachable if the machine may belong to a member that has not answered yet.

        Raises StartInterrupted if the machine has left.
        """
        name = launch.machine or LOCAL
        member = self._machines.get(name) or self._containers.get(launch.tag)
        if member is not None:
            return member
        if any(not member.machines for member in self._members):
            raise RuntimeUnreachable(f"the container engine of machine {name} has not answered yet")
        raise StartInterrupted(f"machine {name} belongs to no container engine of the server any more")

    async def _existing(self, tag: Tag) -> Member:
        """The member that has the container. Raises ContainerGone; RuntimeUnreachable if that is not known."""
        if tag not in self._containers and await self._search(tag) is None:
            raise ContainerGone(f"no container engine has a container {tag}")
        return self._containers[tag]

    async def _search(self, tag: Tag) -> Inspection | None:
        """Inspect a container that this process has not seen. Raises RuntimeUnreachable if a member is silent."""
        silent = []
        for member in self._members:
            try:
                found = await member.runtime.inspect(tag)
                if found is None and await self._is_silent(member):
                    silent.append(member.name)
            except RuntimeUnknown:
                silent.append(member.name)
                continue
            if found is not None:
                self._containers[tag] = member
                return found
        if silent:
            raise RuntimeUnreachable(f"container {tag} may be on an engine that does not answer: {', '.join(silent)}")
        return None
