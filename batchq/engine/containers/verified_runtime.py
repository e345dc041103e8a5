"""The container runtime as the executor has it: no call reaches another engine than the attempts'. Decision 0037."""

from batchq.domain.ids import Tag
from batchq.engine.engine_identity import EngineCheck
from batchq.errors import EngineUnknown
from batchq.ports.runtime import ContainerRuntime, Created, Inspection, LaunchSpec


class VerifiedRuntime:
    """Each call raises EngineUnknown while another engine answers than the known one."""

    def __init__(self, runtime: ContainerRuntime, check: EngineCheck) -> None:
        self._runtime = runtime
        self._check = check

    async def verify(self) -> None:
        """Raises EngineUnknown. Before the first survey the engine is asked for its id."""
        if not self._check.accepted:
            await self._compare()
            self._check.accepted = True

    async def create(self, launch: LaunchSpec) -> Created:
        await self.verify()
        return await self._runtime.create(launch)

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        await self.verify()
        await self._runtime.pull(image, platform, account=account)

    async def start(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.start(tag)

    async def inspect(self, tag: Tag) -> Inspection | None:
        """That a container is absent is believed after the engine was compared again: it may have been exchanged."""
        await self.verify()
        found = await self._runtime.inspect(tag)
        if found is None:
            await self._compare()
        return found

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        await self.verify()
        await self._runtime.signal_stop(tag, signal)

    async def kill(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.kill(tag)

    async def remove(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.remove(tag)

    async def _compare(self) -> None:
        if self._check.foreign is None and self._check.is_known((await self._runtime.identity()).id):
            return
        self._check.accepted = False
        raise EngineUnknown("another container engine answers than the one that jobs run on")
