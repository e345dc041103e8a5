"""The dialect of the web console: HTML pages and forms below /ui, for browsers."""

from aiohttp import web

from batchq.api.console import jobs, overview, static_files
from batchq.api.console.context import ConsoleContext
from batchq.api.console.pages import UI, error_page
from batchq.api.dialect_profiles import DialectProfile, register_dialect_profile
from batchq.api.http import Dialect

PROFILE = DialectProfile(
    name="console",
    prefix=UI,
    error_response=error_page,
    request_id_header="x-request-id",
    schemes=frozenset(),
    has_pages=True,
)

TABLES = (overview.pages, jobs.pages)


def dialect(context: ConsoleContext) -> Dialect:
    """Mount the pages of all tables."""

    def mount(app: web.Application) -> None:
        register_dialect_profile(app, PROFILE)
        static_files.mount(app)
        for table in TABLES:
            table.mount(app, context)

    return mount
