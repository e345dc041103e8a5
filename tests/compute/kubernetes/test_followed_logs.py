"""A follower of a pod's log loses no line and stores none twice, whatever happens to files, connections and servers."""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import count

import pytest

from batchq.compute.kubernetes import log_reader
from batchq.domain.enums import Status
from batchq.errors import RuntimeUnknown
from batchq.logs import followers
from batchq.logs.capture import LogCapture
from batchq.logs.followers import LogFollowers
from batchq.system.clock import SystemClock
from tests.compute.kubernetes.conftest import name_of
from tests.support.builders import job
from tests.support.containers import over, started
from tests.support.inline import InlineLogFiles
from tests.support.kubernetes import kubernetes_runtime
from tests.support.kubernetes_api import ModelCluster
from tests.support.kubernetes_logs import RotatedLog
from tests.support.scripts import Script
from tests.support.stubs import UNLIMITED

ALL = 10**9
LASTING = Script(seconds=None, on_term=0)


class FollowedPod:
    """A running pod whose log a server follows, and what the server has stored."""

    def __init__(self, runtime, cluster, tag, *, follows_rotations=True):
        self.runtime, self.tag, self.archive, self._number = runtime, tag, InlineLogFiles(), count()
        self.log = cluster.logs[name_of(tag)] = RotatedLog(follows_rotations=follows_rotations)
        self._job = job(id=tag.job_id, status=Status.RUNNING)
        self.begin()

    def begin(self):
        """Begin a server."""
        self.capture = LogCapture(archive=self.archive, runtime=self.runtime, clock=SystemClock(), quota=UNLIMITED)
        self.followers = LogFollowers(self.capture, is_following=True)
        self.followers.on_saved(self._job)

    async def write(self, lines):
        await self.log.write(*(f"line {next(self._number)}" for _ in range(lines)))

    async def stored(self):
        page = await self.archive.read(self.tag.log_id, position=0, limit=ALL, max_bytes=ALL)
        return [line.message for line in page.lines]

    async def until_stored(self, lines):
        await self.until([f"line {number}" for number in range(lines)])

    async def until(self, messages):
        """Wait until exactly these lines are stored."""
        async with asyncio.timeout(20):
            while await self.stored() != messages:  # noqa: ASYNC110 - a file sets no event
                await asyncio.sleep(0.005)

    async def read(self):
        """Read the log as a client does."""
        with suppress(RuntimeUnknown):
            await self.capture.copy_new(self.tag, max_age=timedelta(0))


@asynccontextmanager
async def followed_pod(*, minor=36, **options):
    async with kubernetes_runtime(ModelCluster(minor=minor), allow_old=True) as (runtime, cluster):
        pod = FollowedPod(runtime, cluster, await started(runtime, LASTING), **options)
        try:
            yield pod, cluster
        finally:
            await pod.followers.close()
            await pod.log.end()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(followers, "STORE_INTERVAL", timedelta(0))
    monkeypatch.setattr(followers, "REOPEN_PAUSE", timedelta(seconds=0.01))
    monkeypatch.setattr(followers, "QUIET_PERIOD", timedelta(seconds=0.1))
    monkeypatch.setattr(log_reader, "OLD_SILENCE", 0.05)
    monkeypatch.setattr(log_reader, "BEHIND_SILENCE", 0.05)


@pytest.mark.parametrize(("minor", "follows_rotations"), [(36, True), (20, False)], ids=["1.36", "1.20"])
async def test_all_lines_of_rotated_files_are_stored_once(minor, follows_rotations):
    async with followed_pod(minor=minor, follows_rotations=follows_rotations) as (pod, _):
        for lines in (300, 600, 900):
            await pod.write(300)
            await pod.until_stored(lines)
            await pod.log.rotate()

        await pod.followers.capture(pod.tag)

        await pod.until_stored(900)
        assert pod.log.followers == 1 or not follows_rotations


async def test_a_kubelet_that_was_behind_a_rotation_is_asked_again():
    """It stays with the old file until the next rotation, and then skips the lines between."""
    async with followed_pod() as (pod, _):
        pod.log.misses_rotations = True
        lines = ["x" * 1000 + str(number) for number in range(300)]
        await pod.log.write(*lines)
        await pod.until(lines)

        await pod.log.rotate()
        await pod.log.write("after")

        await pod.until([*lines, "after"])


async def test_lines_of_a_rotated_file_that_a_loaded_node_sends_late_are_awaited_at_the_end(monkeypatch):
    """No other request can read them."""
    monkeypatch.setattr(followers, "QUIET_PERIOD", timedelta(seconds=0.02))
    monkeypatch.setattr(log_reader, "BEHIND_SILENCE", 5.0)
    async with followed_pod() as (pod, _):
        lines = ["x" * 1000 + str(number) for number in range(1100)]
        await pod.log.write(*lines)
        await pod.until(lines)
        pod.log.is_sent.clear()
        await pod.log.write("late")
        await pod.log.rotate()
        await pod.log.write("last")

        ending = asyncio.create_task(pod.followers.capture(pod.tag))
        await asyncio.sleep(0.3)  # several times the quiet of the end
        pod.log.is_sent.set()
        await ending

        await pod.until([*lines, "late", "last"])


async def test_a_silent_log_is_not_requested_again():
    async with followed_pod() as (pod, cluster):
        await pod.write(100)
        await pod.until_stored(100)
        await asyncio.sleep(0.3)

        assert len([path for _, path in cluster.calls if path.endswith("/log")]) == 1


async def test_readers_beside_a_follower_store_no_line_twice():
    async with followed_pod() as (pod, _):
        for _ in range(20):
            await asyncio.gather(pod.write(50), pod.read(), pod.read())
            await pod.read()
        await pod.log.rotate()
        await pod.write(1)

        await pod.until_stored(1001)


async def test_a_broken_connection_is_continued():
    async with followed_pod() as (pod, cluster):
        for lines in (100, 200, 300):
            await pod.write(100)
            await pod.until_stored(lines)
            cluster.break_streams()
        await pod.write(1)

        await pod.until_stored(301)
        assert pod.log.followers > 1


@pytest.mark.parametrize("minor", [36, 20])
@pytest.mark.parametrize("size", [10, 40, 44, 60, 16_384 + 70])
async def test_a_line_within_which_a_reply_ends_is_stored_once_and_whole(minor, size):
    """The replies end within a stamp, a line, a character, the last line and a line of several pieces."""
    lines = ["line äöü", "another line", 20_000 * "x", "last"]
    async with followed_pod(minor=minor, follows_rotations=minor > 30) as (pod, _):
        pod.log.reply_bytes = size

        await pod.log.write_pieces(*(f"{line}\n" for line in lines[:2]), lines[2][:16_384], f"{lines[2][16_384:]}\n")
        await pod.log.write(lines[3])

        await pod.until(lines)
        assert pod.log.followers > 1


async def test_an_unfinished_line_is_stored_although_it_cannot_be_read_again():
    async with followed_pod() as (pod, cluster):
        await pod.log.write_pieces("ready\n", "unfinished")
        await pod.until(["ready"])
        cluster.logs[name_of(pod.tag)] = RotatedLog()
        await pod.log.end()

        await pod.until(["ready", "unfinished"])


async def test_a_kubelet_that_stays_with_an_old_file_is_left_once_the_next_file_has_lines():
    """What is written while no connection exists is lost if its file is rotated away."""
    async with followed_pod(minor=20, follows_rotations=False) as (pod, _):
        await pod.write(10)
        await pod.until_stored(10)
        left = []
        pod.log.on_leave = lambda: left.append(pod.log.followers)
        await asyncio.sleep(0.3)  # several times OLD_SILENCE
        assert left == []

        await pod.write(10)
        await pod.log.rotate()
        await pod.write(10)

        await pod.until_stored(30)
        assert left == [1]


async def test_a_reader_does_not_store_a_part_of_a_line_that_is_being_written():
    async with followed_pod() as (pod, _):
        await pod.followers.close()
        await pod.write(1)
        pod.log.torn = "lin"
        await pod.read()
        assert await pod.stored() == ["line 0"]

        pod.log.torn = ""
        await pod.write(1)
        await pod.read()

        assert await pod.stored() == ["line 0", "line 1"]


async def test_a_line_that_never_ends_is_shown_after_some_time(monkeypatch):
    async with followed_pod() as (pod, _):
        await pod.followers.close()
        await pod.log.write_pieces("10 %")
        await pod.read()
        assert await pod.stored() == []

        monkeypatch.setattr(log_reader, "LINE_WAIT", timedelta(0))
        await pod.read()

        assert await pod.stored() == ["10 %"]


async def test_the_last_line_of_a_container_needs_no_line_end():
    async with followed_pod() as (pod, _):
        await pod.followers.close()
        await pod.log.write_pieces("unfinished")
        await pod.runtime.kill(pod.tag)
        await over(pod.runtime, pod.tag)

        await pod.capture.capture(pod.tag)

        assert await pod.stored() == ["unfinished"]


@pytest.mark.parametrize("cut", [2300 * 130 + 50, 2300 * 130])  # of lines of 130 characters with their stamps
async def test_a_reply_that_a_kubelet_did_not_finish_is_continued(cut):
    """The API server ends such a reply as any other: within a line, or at its end."""
    async with followed_pod() as (pod, _):
        await pod.followers.close()
        lines = [f"{number:098}" for number in range(5000)]
        await pod.log.write(*lines)
        await pod.runtime.kill(pod.tag)
        await over(pod.runtime, pod.tag)
        pod.log.reading_characters = cut

        await pod.capture.capture(pod.tag)

        assert await pod.stored() == lines


async def test_a_line_that_took_seconds_is_not_stored_again_in_part():
    """A reading from a time within the line begins with its rest, without a stamp."""
    async with followed_pod() as (pod, _):
        await pod.log.write_pieces(16_384 * "x")
        pod.log.pass_time(3000)
        await pod.log.write_pieces("y\n", "next\n")
        await pod.read()
        await pod.read()

        await pod.followers.close()
        pod.begin()
        await pod.log.write("last")

        await pod.until([f"{16_384 * 'x'}y", "next", "last"])


async def test_another_server_continues():
    async with followed_pod() as (pod, _):
        await pod.write(100)
        await pod.until_stored(100)
        await pod.followers.close()
        await pod.write(100)

        pod.begin()

        await pod.until_stored(200)


async def test_the_log_of_a_deleted_pod_is_stored_although_it_cannot_be_read_any_more():
    async with followed_pod() as (pod, cluster):
        await pod.write(100)
        await pod.until_stored(100)
        cluster.logs[name_of(pod.tag)] = RotatedLog()
        await pod.log.write("line 100")
        await pod.log.end()

        await pod.followers.capture(pod.tag)

        await pod.until_stored(101)


async def test_the_end_on_a_node_that_left_is_not_awaited():
    async with followed_pod() as (pod, cluster):
        await pod.write(1)
        await pod.until_stored(1)
        cluster.lose_node("n1")

        async with asyncio.timeout(5):
            await pod.followers.capture(pod.tag)

        await pod.until_stored(1)


async def test_a_slow_archive_stops_the_log_in_place_of_filling_the_memory():
    async with followed_pod() as (pod, _):
        await pod.write(1)
        await pod.until_stored(1)
        writes = asyncio.Event()
        append = pod.archive.append

        async def slow_append(*lines):
            await writes.wait()
            return await append(*lines)

        pod.archive.append = slow_append
        line = "x" * 100_000
        async with asyncio.timeout(20):
            await pod.log.write(*[line] * 400)
            sent = -1
            while sent != pod.log.sent:
                sent = pod.log.sent
                await asyncio.sleep(0.3)

        assert sent < 20_000_000
        writes.set()
        async with asyncio.timeout(60):
            while (await pod.stored()).count(line) < 400:  # noqa: ASYNC110 - a file sets no event
                await asyncio.sleep(0.1)
