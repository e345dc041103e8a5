"""All pages of a search of jobs, and work on many jobs that leaves the event loop to other requests in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from msgspec.structs import replace

from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.ports.job_search import JobPage, PageQuery

SLICE = 100  # items between which other tasks do not run: up to 30 ms for rows of jobs with the largest requests

T = TypeVar("T")


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items. After each SLICE of them other tasks run."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % SLICE == 0:
            await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait


async def job_pages(parts: Parts, query: PageQuery, *, caller: Caller) -> AsyncIterator[JobPage]:
    """The pages from that of `query` to the last one, each read when it is used. Raises NotFound as a search does."""
    while True:
        page = await parts.search.search(query, caller=caller)
        yield page
        if page.next is None:
            return
        query = replace(query, before=page.next)
