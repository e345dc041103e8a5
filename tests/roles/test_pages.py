"""Each page and form of the console, for each role, on own resources and those of other users.

A cell is as in the matrix of operations: D the page is shown or the form is accepted; H the response is that for a
resource that does not exist, byte for byte; X it is denied.
"""

import http.client
import re
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlencode, urlsplit

import pytest

from batchq.api.console.pages import UI
from batchq.api.console.routes import TABLES
from tests.roles.resources import absent
from tests.roles.rows import ALL, CHANGE, OWN, REACH, SHARED, USE, WHOSE, Cells

INVOCATION = {"invocation": "0b0e6d0c-6dd6-47ff-a5f6-b0eb4e9f7ea6"}
ORDER = INVOCATION | {"state": "another state", "reason": "the matrix", "order": "CANCEL"}
HOLD = INVOCATION | {"state": "another state", "reason": "the matrix"}
GROUP_HOLD = INVOCATION | {"before": "1", "jobs": "1"}  # no job is as old as this preview
LAST_RESORT = {"ada": "XXXXX", "cora": "XXXXX", "oda": "XXXXX", "amy": "DDDDD"}
REGEX = re.compile(r":(?:\[[^\]]*\]|[^{}/])*(?:\{[^}]*\})?(?=\})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRow:
    cells: Cells = field(default_factory=lambda: REACH)
    #: Of a POST. The orders of jobs are for another state than theirs, so they change nothing.
    form: object = ()
    query: str = ""
    #: The method of Resources that makes the resource.
    kind: str = "fresh"
    #: Whether the page is that of a list, which counts as shown if it links to the job.
    lists: bool = False
    #: Whether the form changes the resource: each cell then has a new one.
    changes: bool = False


def both(path, *, form, **row):
    return {f"GET {path}": PageRow(**row), f"POST {path}": PageRow(form=form, **row)}


ROWS = {
    **{
        f"GET {path}": PageRow(cells=ALL)
        for path in ("", "/", "/find", "/settings", "/keys", "/queues", "/queues/{name}", "/definitions")
    },
    **{
        f"GET {path}": PageRow(cells=ALL)
        for path in ("/resources", "/resources/{name}", "/accounts", "/system", "/cost")
    },
    "GET /environments": PageRow(lists=True, kind="running"),
    **{f"GET {path}": PageRow(query="?job={job}", lists=True) for path in ("/audit", "/events")},
    "GET /jobs": PageRow(query="?definition={ref}", lists=True),
    "POST /settings": PageRow(cells=ALL, form={"theme": "dark", "times": "utc", "shortcuts": "on"}),
    "GET /stop": PageRow(cells=ALL, query="?queue=still"),
    "POST /stop": PageRow(cells=ALL, form=INVOCATION | {"kind": "CANCEL", "queue": "still", "reason": "the matrix"}),
    "GET /submit": PageRow(query="?like={job}"),
    "POST /submit": PageRow(form=INVOCATION | {"like": "{job}", "definition": "none"}),
    "GET /webhooks": PageRow(cells=ALL),
    "GET /webhooks/new": PageRow(cells=ALL),
    "POST /webhooks/new": PageRow(cells=ALL, form=INVOCATION | {"name": "hook", "url": "https://127.0.0.1"}),
    "GET /webhooks/{id}": PageRow(kind="webhook"),
    "GET /webhooks/{id}/delete": PageRow(kind="webhook"),
    "POST /webhooks/{id}/delete": PageRow(kind="webhook", changes=True),
    **{
        f"POST /webhooks/{{id}}/{order}": PageRow(kind="webhook")
        for order in ("test", "enable", "disable", "redeliver")
    },
    "POST /webhooks/{id}/rotate": PageRow(kind="webhook", cells=OWN),
    "GET /rerun": PageRow(query="?job={job}"),
    "POST /rerun": PageRow(form=INVOCATION | {"job": "{job}"}),
    **{f"GET /jobs/{{job}}{part}": PageRow() for part in ("", "/log", "/log/text")},
    **{f"GET /jobs/{{job}}/nodes/{{node}}{part}": PageRow(kind="gang") for part in ("", "/log", "/log/text")},
    **{f"GET /jobs/{{job}}/children{part}": PageRow(kind="array") for part in ("", "/csv")},
    **{f"GET /groups/{{group}}{part}": PageRow(kind="grouped") for part in ("", "/csv")},
    **both("/jobs/{id}/stop", form=ORDER),
    **both("/jobs/{id}/nodes/{node}/stop", form=ORDER, kind="gang"),
    **both("/jobs/{id}/force-fail", form=HOLD, cells=LAST_RESORT),
    **both("/jobs/{id}/hold", form=HOLD),
    **both("/jobs/{id}/release", form=HOLD),
    **both("/groups/{group}/hold", form=GROUP_HOLD, kind="grouped"),
    **both("/groups/{group}/release", form=GROUP_HOLD, kind="grouped"),
    **both("/jobs/{id}/pause", form=HOLD),
    **both("/jobs/{id}/resume", form=HOLD),
    **{f"POST /queues/{{name}}/{verb}": PageRow(cells=SHARED) for verb in ("enable", "disable", "drain", "undrain")},
    **{f"GET /queues/{{name}}/{verb}": PageRow(cells=SHARED) for verb in ("disable", "drain")},
    "GET /definitions/{ref}": PageRow(cells=USE),
    "GET /definitions/{ref}/deregister": PageRow(cells=USE),
    "POST /definitions/{ref}/deregister": PageRow(cells=CHANGE, changes=True),
}
#: Pages without resources of their own: streams, and results that one user has.
WITHOUT_ROW = {"GET /live", "GET /stop/results/{invocation}", "GET /rerun/results/{invocation}"}


ABSENT_GROUP = "g-" + "0" * 20


class Visitors:
    """The users of the server, logged in."""

    def __init__(self, server):
        self._server = server
        self._cookies = {}

    def send(self, user, name, row, owned):
        """The status, the headers and the body."""
        method, _, path = name.partition(" ")
        values = {"id": owned.job, "job": owned.job, "node": "1", "ref": owned.ref, "name": owned.definition}
        values["group"] = owned.job if owned.job.startswith("g-") else ABSENT_GROUP
        if user not in self._cookies:
            key = self._server.keys[user]
            form = {"key_id": key.access_key, "secret": key.secret_key}
            _, headers, _ = self._request("POST", "/login", form, {})
            self._cookies[user] = headers["Set-Cookie"].partition(";")[0]
        form = {name: value.format_map(values) for name, value in dict(row.form).items()}
        return self._request(method, (path + row.query).format_map(values), form, {"Cookie": self._cookies[user]})

    def _request(self, method, path, form, headers):
        at = urlsplit(self._server.url)
        connection = http.client.HTTPConnection(at.netloc, timeout=60)
        sent = {"Origin": self._server.url, "Content-Type": "application/x-www-form-urlencoded"} | headers
        try:
            connection.request(method, f"/ui{path}", body=urlencode(form) if method == "POST" else None, headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def visitors(server):
    return Visitors(server)


def letter(answer, missing):
    status, _, body = answer
    assert status < 500, answer
    if status == 403:
        return "X"
    if status == 404:
        return "H" if (status, body) == (missing[0], missing[2]) else f"{body} is not {missing[2]}"
    return "D"


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("name", ROWS)
def test_each_role_sees_exactly_its_pages_and_hidden_resources_do_not_exist(resources, visitors, name):
    row = ROWS[name]
    missing = cache(lambda who: visitors.send(who, name, row, absent()))

    def cell(who):
        if len(row.cells[who]) == 1:
            return "X" if visitors.send(who, name, row, absent())[0] == 403 else "D"
        make = getattr(resources, row.kind) if row.changes else lambda owner: resources.kept(owner, row.kind)
        owned = [make(owner or who) for owner in WHOSE.values()]
        answers = [(owned_job, visitors.send(who, name, row, owned_job)) for owned_job in owned]
        if row.lists:
            return "".join(
                "D" if f'href="/ui/jobs/{owned_job.job}"'.encode() in answer[2] else "H"
                for owned_job, answer in answers
            )
        return "".join(letter(answer, missing(who)) for _, answer in answers)

    assert {who: cell(who) for who in row.cells} == row.cells


@pytest.mark.fault("SE08")
def test_find_finds_no_hidden_job(resources, visitors):
    def found(owned):
        status, _, body = visitors.send("ada", "GET /find", PageRow(query="?q={job}"), owned)
        return status, owned.masked(body).partition(b"<main")[2]

    assert found(resources.kept("ada"))[0] == 303
    assert found(resources.kept("eve")) == found(absent())


def test_every_page_has_a_row():
    names = {
        f"{operation.method} {REGEX.sub('', operation.path.removeprefix(UI))}"
        for table in TABLES
        for operation in table.operations
    }

    assert names - ROWS.keys() - WITHOUT_ROW == set()
    assert ROWS.keys() - names == set()
