"""How much of the database a unit of work writes."""

from msgspec.structs import replace

from batchq.domain.job import Status
from batchq.ports.jobs import Changes
from batchq.store.database import NAME
from tests.support.builders import job

PAGE = 24 + 4096  # bytes of the log of writes


async def test_an_update_without_searched_changes_writes_only_the_row(store, tmp_path):
    before = job(status=Status.STARTING)
    await store.commit(Changes(inserted=(before,)))
    log = tmp_path / f"{NAME}-wal"
    size = log.stat().st_size

    await store.commit(Changes(updated=(replace(before, status_reason="made"),)))

    assert log.stat().st_size == size + PAGE
