"""The dialect of the web console: HTML pages and forms below /ui, for browsers."""

import re

from aiohttp import web

from batchq.api.console import (
    audit_page,
    bulk_stop_page,
    capacity_pages,
    catalog_forms,
    children,
    definition_pages,
    events_page,
    find,
    hold_pages,
    job_page,
    jobs,
    live,
    log_page,
    login,
    overview,
    people_page,
    queue_pages,
    rerun_page,
    settings,
    static_files,
    stop_page,
    submit_page,
    system_page,
)
from batchq.api.console.context import ConsoleContext
from batchq.api.console.pages import UI, error_page
from batchq.api.credentials import Scheme
from batchq.api.dialect_profiles import DialectProfile, register_dialect_profile
from batchq.api.http import Dialect
from batchq.api.sessions import LOGIN, LOGOUT

PROFILE = DialectProfile(
    name="console",
    prefix=UI,
    error_response=error_page,
    request_id_header="x-request-id",
    schemes=frozenset({Scheme.SESSION}),
    has_pages=True,
    max_body=64 * 1024,
    public=re.compile(rf"{LOGIN}|{LOGOUT}|/ui/static/.+"),
)

TABLES = (
    overview.pages,
    jobs.pages,
    job_page.pages,
    children.pages,
    find.pages,
    log_page.pages,
    live.pages,
    settings.pages,
    stop_page.pages,
    bulk_stop_page.pages,
    queue_pages.pages,
    definition_pages.pages,
    system_page.pages,
    events_page.pages,
    audit_page.pages,
    people_page.pages,
    capacity_pages.pages,
    hold_pages.pages,
    submit_page.pages,
    rerun_page.pages,
    catalog_forms.pages,
)


def dialect(context: ConsoleContext) -> Dialect:
    """Mount the pages of all tables."""

    def mount(app: web.Application) -> None:
        register_dialect_profile(app, PROFILE)
        static_files.mount_static_files(app)
        login.mount_login(app, context)
        for table in TABLES:
            table.mount(app, context)

    return mount
