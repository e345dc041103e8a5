"""The settings of a browser, as cookies: the theme, the time zone of times, and the keyboard shortcuts."""

from http import HTTPStatus
from typing import Literal

from aiohttp import web

from batchq.api.console.pages import HEADERS, UI, Page, PageTable
from batchq.api.http.http import RequestQuery
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission

PATH = "/settings"
YEAR = 365 * 24 * 3600  # seconds
DEFAULTS = {"theme": "system", "times": "local", "shortcuts": "on"}
#: Keys with what they do: the script carries it out.
SHORTCUTS = (
    ("/", "Find a job, queue or definition"),
    ("g o", "Overview"),
    ("g j", "Jobs"),
    ("g q", "Queues"),
    ("g d", "Definitions"),
    ("g s", "Submit a job"),
    ("j k", "Next row, previous row"),
    ("Enter", "Open the row"),
    ("x", "Choose the row"),
    ("c", "Copy the id of the row, or of the job"),
    ("l", "Log"),
    ("w", "Explanation of the status"),
    ("t", "Stop the job"),
    ("p", "Pause or resume live updates"),
    ("?", "This list"),
)

pages = PageTable()


class SettingsForm(RequestQuery):
    theme: Literal["system", "light", "dark"]
    times: Literal["local", "utc"]
    shortcuts: Literal["on", "off"]


@pages.get(PATH, Permission.SELF)
async def settings_page(_: Parts, visit: Call[None]) -> Page:
    chosen = {name: visit.http.cookies.get(name, default) for name, default in DEFAULTS.items()}
    return Page(template="settings.html", title="Settings", values={"chosen": chosen})


@pages.post(PATH, Permission.SELF)
async def save_settings(_: Parts, visit: Call[SettingsForm]) -> web.Response:
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": UI + PATH})
    for name, value in visit.input.model_dump().items():
        # The script reads them, so they are not HttpOnly.
        response.set_cookie(name, value, max_age=YEAR, path=UI, samesite="Lax")
    return response


@pages.get("/keys", Permission.SELF)
async def keys_page(_: Parts, visit: Call[None]) -> Page:  # noqa: ARG001 - the table passes it
    return Page(template="keys.html", title="Keyboard shortcuts", values={"shortcuts": SHORTCUTS})
