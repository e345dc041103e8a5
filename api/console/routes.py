"""The dialect of the web console: HTML pages and forms below /ui, for browsers."""

import re

from aiohttp import web

from batchq.api.auth.sessions import LOGIN, LOGOUT
from batchq.api.console import (
    account_pages,
    bulk_stop_page,
    capacity_pages,
    children_page,
    cost_page,
    definition_pages,
    event_stream,
    find,
    group_hold_page,
    group_page,
    hold_pages,
    job_detail_pages,
    job_list_page,
    log_page,
    login,
    queue_pages,
    record_pages,
    rerun_page,
    server_pages,
    settings,
    stop_page,
    submit_page,
    webhook_pages,
)
from batchq.api.console.pages import UI, error_page
from batchq.api.console.templates import STATIC, static_path
from batchq.api.http.credentials import Scheme
from batchq.api.http.dialect_profiles import DialectProfile
from batchq.api.http.http import Dialect
from batchq.api.operations.operation_table import OperationTable, PublicHandler, dialect_of
from batchq.api.operations.parts import Parts

MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
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

TABLES = tuple(
    value.pages
    for value in (
        server_pages,
        job_list_page,
        group_page,
        group_hold_page,
        job_detail_pages,
        children_page,
        find,
        log_page,
        event_stream,
        settings,
        stop_page,
        bulk_stop_page,
        queue_pages,
        definition_pages,
        record_pages,
        account_pages,
        capacity_pages,
        cost_page,
        hold_pages,
        submit_page,
        rerun_page,
        webhook_pages,
    )
)


def dialect(parts: Parts) -> Dialect:
    """Mount the pages of all tables."""
    return dialect_of(_static_files(), login.operations, *TABLES, profile=lambda _: PROFILE)(parts)


def _static_files() -> OperationTable:
    """The style sheet and the script, below a path that changes with their content. They are read here, once."""
    files = OperationTable()
    for file in sorted(STATIC.iterdir()):
        files.public("serve", "GET", static_path(file.name))(_serve(file.read_bytes(), MEDIA[file.suffix]))
    return files


def _serve(body: bytes, media: str) -> PublicHandler:
    async def serve(_parts: Parts, _request: web.Request) -> web.StreamResponse:
        response = web.Response(body=body, content_type=media, charset="utf-8", headers=HEADERS)
        response.enable_compression()
        return response

    return serve
