"""All pages of a search of jobs."""

from collections.abc import AsyncIterator

from msgspec.structs import replace

from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.ports.job_search import JobPage, PageQuery


async def job_pages(parts: Parts, query: PageQuery, *, caller: Caller) -> AsyncIterator[JobPage]:
    """The pages from that of `query` to the last one, each read when it is used. Raises NotFound as a search does."""
    while True:
        page = await parts.search.search(query, caller=caller)
        yield page
        if page.next is None:
            return
        query = replace(query, before=page.next)
