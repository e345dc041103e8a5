"""Circuit breaker for container starts. While it is open, jobs wait, and single starts probe whether the host works.

Only failures that a job cannot cause count (`StartRefused.host_failed`). It opens only when several jobs fail in this
way without a success in between, with several images or with an image that has started before. A bad image, command,
mount or device therefore does not open it, however many jobs use it. A success closes it. Decision 0038.

Each container engine has its own breaker: an engine that cannot start containers delays no start on another one.
"""

import asyncio
import logging
from datetime import datetime

from batchq.domain.ids import ContainerEngineName, JobId
from batchq.engine.supervisor import Supervisor
from batchq.ports.clock import Clock

log = logging.getLogger(__name__)

MIN_JOBS = 3  # different jobs with failed starts and no success in between
MIN_IMAGES = 2  # different images, if none of them has started before
FIRST_PAUSE, MAX_PAUSE = 1.0, 30.0  # seconds between probes
MAX_IMAGES = 1000  # images remembered as having started
MAX_REASON = 300  # characters


class StartBreakers:
    """The breakers of all container engines."""

    def __init__(self, *, clock: Clock, tasks: Supervisor) -> None:
        self._clock = clock
        self._tasks = tasks
        self._by_engine: dict[ContainerEngineName, StartBreaker] = {}

    def of_engine(self, engine: ContainerEngineName) -> "StartBreaker":
        if engine not in self._by_engine:
            self._by_engine[engine] = StartBreaker(clock=self._clock, tasks=self._tasks, engine=engine)
        return self._by_engine[engine]

    @property
    def error(self) -> str | None:
        """The failures of all engines that cannot start containers; None: there are no failures."""
        return "; ".join(error for breaker in self._by_engine.values() if (error := breaker.error)) or None


class StartBreaker:
    """Counts failures of the host and paces starts while the host cannot start containers."""

    def __init__(self, *, clock: Clock, tasks: Supervisor, engine: str = "") -> None:
        """`engine`: the name of the container engine in messages; empty: not known."""
        self._clock = clock
        self._tasks = tasks
        self._host = engine or "the host"
        self._where = f" on {engine}" if engine else ""
        #: Starts that succeeded since the server began.
        self.successes = 0
        #: The jobs and images that failed since the last success, up to the numbers that open the breaker.
        self._jobs: set[JobId] = set()
        self._images: set[str] = set()
        #: The images that have started, least recently started first.
        self._started_images: dict[str, None] = {}
        #: The last failure of the host.
        self._reason = ""
        self._open = False
        #: When the breaker last opened; None: never.
        self.opened_at: datetime | None = None
        #: The starts that wait for permission, in the order of their calls of `permit`. Cancelling one removes it.
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._probing = False
        self._pause = FIRST_PAUSE

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def error(self) -> str | None:
        """The failure of the host after failed starts of MIN_JOBS jobs, else None.

        It is also reported while all the failed jobs use one image, which may be the cause.
        """
        return f"containers cannot be started{self._where}: {self._reason}" if len(self._jobs) >= MIN_JOBS else None

    def permit(self) -> asyncio.Future[None] | None:
        """None if the start may be tried now, else a future to wait for.

        The future is done when this start may probe or the breaker has closed. Cancel the future to stop waiting.
        """
        if not self._open:
            return None
        permission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[permission] = None
        permission.add_done_callback(lambda done: self._waiting.pop(done, None))
        if not self._probing:
            self._probing = True
            self._tasks.spawn("probe starts", self._probe())
        return permission

    def succeeded(self, image: str) -> None:
        """A container with this image has started: close the breaker and admit all waiting starts."""
        self.successes += 1
        self._started_images.pop(image, None)  # it becomes the newest
        self._started_images[image] = None
        if len(self._started_images) > MAX_IMAGES:
            del self._started_images[next(iter(self._started_images))]
        self._jobs.clear()
        self._images.clear()
        if self._open:
            self._open = False
            self._pause = FIRST_PAUSE
            log.info("%s starts containers again: %d waiting starts continue", self._host, len(self._waiting))
            while self._waiting:
                self._admit_next()

    def host_failed(self, job_id: JobId, image: str, reason: str) -> None:
        """Count a failed start whose cause a job cannot choose."""
        self._reason = reason[:MAX_REASON]
        if len(self._jobs) < MIN_JOBS:
            self._jobs.add(job_id)
        if len(self._images) < MIN_IMAGES:
            self._images.add(image)
        if self._open:
            self._pause = min(self._pause * 2, MAX_PAUSE)
        elif len(self._jobs) >= MIN_JOBS and (len(self._images) >= MIN_IMAGES or image in self._started_images):
            self._open, self.opened_at = True, self._clock.now()
            log.warning(
                "%s cannot start containers; jobs wait, and single starts probe the host: %s",
                self._host,
                self._reason,
            )

    def job_failed(self) -> None:
        """A start failed for a cause of its own, not the host's: the next start may probe at once."""
        self._admit_next()

    async def _probe(self) -> None:
        """Admit one start after each pause while starts wait."""
        try:
            while self._waiting:
                await self._clock.sleep(self._pause)
                self._admit_next()
        finally:
            self._probing = False

    def _admit_next(self) -> None:
        while self._waiting:
            permission = next(iter(self._waiting))
            del self._waiting[permission]
            if not permission.done():
                permission.set_result(None)
                return
