"""Arbitrary queries, forms and cookies get a page or a refusal, never an error of the server."""

import logging
import random
import re
from urllib.parse import quote_from_bytes

import pytest
from pydantic import BaseModel
from yarl import URL

from batchq.api.auth.sessions import LOGIN
from batchq.api.console.login import LoginForm
from batchq.api.console.pages import UI
from batchq.api.console.routes import TABLES
from tests.support.examples import examples

SEED = 20261123
REQUESTS = examples(20)  # for each page
VARIABLE = re.compile(r"\{(\w+)(?::(?:[^{}]|\{[^}]*\})*)?\}")
STREAMS = {"/live"}
TEXTS = (
    b"",
    b"a",
    b"0",
    b"-1",
    b"1e999",
    b"9" * 400,
    b"true",
    b"RUNNING",
    b"default",
    b"00000000-0000-4000-8000-000000000000",
    b"<script>alert(1)</script>",
    b"{{ 7 * 7 }}{% raw %}",
    b"a\r\nSet-Cookie: batchq=x",
    b"\0",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    "\u202e\u2066\ufeff\U0001f600".encode(),
    b"../../../etc/passwd",
    b"2026-11-23T12:00",
    b"9999-12-31T23:59:59",
    b"a" * 5000,
    b"%25%00",
)
COOKIES = ("batchq=x", "batchq=a.b.c.d; theme=<", '__Host-batchq="; theme="', "=;,; batchq", "theme=dark; times=\xe9")


def routes():
    """The method, the path and the names of the fields of each page."""
    own = [
        (operation.method, operation.path, tuple((operation.query or operation.body or BaseModel).model_fields))
        for table in TABLES
        for operation in table.operations
        if operation.path.removeprefix(UI) not in STREAMS
    ]
    return [*own, ("GET", LOGIN, ("code", "next")), ("POST", LOGIN, tuple(LoginForm.model_fields))]


def arbitrary(dice, path, names):
    """The path with values for its variable parts, and a query or a form."""
    for variable in (pair[0] for pair in VARIABLE.finditer(path)):
        path = path.replace(variable, quote_from_bytes(dice.choice(TEXTS), safe="") or "0", 1)
    fields = [(dice.choice([*names, "unknown"]), dice.choice(TEXTS)) for _ in range(dice.randint(0, 6))]
    return path, "&".join(f"{name}={quote_from_bytes(value)}" for name, value in fields)


@pytest.mark.fault("IN01")
async def test_no_arbitrary_request_of_a_browser_causes_a_server_error(browser, caplog):
    job, dice = await browser.submit(), random.Random(SEED)
    for method, path, names in routes():
        for number in range(REQUESTS):
            whole, text = arbitrary(dice, path, names)
            if number == 0:
                whole = VARIABLE.sub(job, path)
            headers = {"Cookie": dice.choice(COOKIES)}
            headers |= {"X-Fragment": dice.choice(["live", "<x>", "root"])} if dice.random() < 0.2 else {}
            status = await send(browser, method, whole, text, headers)
            assert status < 500, (method, whole, text, headers)

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def send(browser, method, path, text, headers):
    """The status."""
    url = URL(f"{browser.url}{path}?{text}" if method == "GET" else browser.url + path, encoded=True)
    form = {"Origin": browser.url, "Content-Type": "application/x-www-form-urlencoded"}
    body = text.encode() if method == "POST" else None
    async with browser._session.request(
        method, url, data=body, headers=headers | (form if method == "POST" else {}), allow_redirects=False
    ) as answer:
        await answer.read()
        return answer.status
