"""The container runtime restricted to the engine on which the attempts were placed. Decision 0037."""

from batchq.domain.ids import Tag
from batchq.engine.engine_identity import EngineCheck
from batchq.errors import EngineUnknown
from batchq.ports.runtime import ContainerRuntime, Created, Inspection, LaunchSpec


class VerifiedRuntime:
    """Raises EngineUnknown from each call while an engine other than the known one answers."""

    def __init__(self, runtime: ContainerRuntime, check: EngineCheck) -> None:
        self._runtime = runtime
        self._check = check

    async def verify(self) -> None:
        """Raise EngineUnknown if another engine answers. Before the first survey this asks the engine for its id."""
        if not self._check.accepted:
            await self._compare_ids()
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
        """The state of a container; None if it is absent.

        Absence is reported only after the engine's id was compared again: the engine may have been replaced in between.
        """
        await self.verify()
        found = await self._runtime.inspect(tag)
        if found is None:
            await self._compare_ids()
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

    async def _compare_ids(self) -> None:
        """Raise EngineUnknown if the id of the engine differs from the known id."""
        if self._check.foreign_id is None and self._check.matches((await self._runtime.identity()).id):
            return
        self._check.accepted = False
        raise EngineUnknown("a different container engine answers than the one on which jobs run")
