"""Saves jobs one after the other, and prints each order to stdout once it is saved, until it is killed."""

import asyncio
import sys
from pathlib import Path

from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import job, moment


async def write(data):
    store = await SqliteStore.open(data)
    number = await store.last_sequence() + 1
    while True:
        new = job(number=number)
        await store.commit(Changes(inserted=(new,), history=(moment(new),)))
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1])))
