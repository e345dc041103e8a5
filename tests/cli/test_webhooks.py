"""`batchq webhook`: requests and output."""

import io
import sys

import pytest

from tests.cli.responses import caller
from tests.cli.servers import batchq, ended

URL = "https://hooks.example.com/services/T0/part"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
CHAT = {
    "webhookId": "wh-1",
    "webhookName": "chat",
    "user": "ada",
    "account": "lab",
    "endpoint": "https://hooks.example.com",
    "format": "SLACK",
    "eventKinds": ["SUCCEEDED", "FAILED"],
    "jobQueues": ["gpu"],
    "createdAt": 1_795_000_000_000,
    "state": "RETRYING",
    "position": 12,
    "delivered": 3,
    "failure": "answered 503",
    "undelivered": [{"number": 7, "at": 1_795_000_000_000, "reason": "answered 400"}],
}


@pytest.fixture
def webhooks(native):
    changed = {"webhook": CHAT}
    native.responses |= {
        "/v1/batchq/listwebhooks": {"webhooks": [CHAT, CHAT | {"webhookId": "wh-2", "user": "eve"}]},
        "/v1/batchq/createwebhook": changed | {"secret": SECRET},
        "/v1/batchq/updatewebhook": changed,
        "/v1/batchq/redeliverwebhook": {"webhook": CHAT | {"redelivering": [7, 8]}},
        "/v1/batchq/testwebhook": {"verdict": "DELIVERED", "text": "answered 200"},
        "/v1/batchq/deletewebhook": {},
        "/v1/batchq/whoami": caller(),
    }
    return native


def last(server):
    return server.requests[-1][1:]


async def test_create_prints_the_secret_alone(webhooks, capsys):
    words = ["--kind", "failed", "-q", "gpu", "-n", "train-*", "--group", "fit*", "--children"]

    assert await batchq("webhook", "create", "ci", URL, *words) == 0

    assert capsys.readouterr().out == f"{SECRET}\n"
    assert last(webhooks) == (
        "/v1/batchq/createwebhook",
        {
            "webhookName": "ci",
            "url": URL,
            "format": "STANDARD",
            "children": True,
            "eventKinds": ["FAILED"],
            "jobQueues": ["gpu"],
            "groupNames": ["fit*"],
            "jobNames": ["train-*"],
        },
    )


async def test_the_url_and_the_token_may_come_from_stdin(webhooks, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{URL}\na-token\n"))

    assert await batchq("webhook", "create", "chat", "-", "--token-stdin", "--kind", "none") == 0

    assert last(webhooks)[1] == {
        "webhookName": "chat",
        "url": URL,
        "token": "a-token",
        "format": "STANDARD",
        "children": False,
        "eventKinds": [],
    }


async def test_list_has_a_line_for_each_webhook(webhooks, capsys):
    assert await batchq("webhook", "list") == 0

    assert capsys.readouterr().out.splitlines()[0] == (
        "chat\tRETRYING\tslack\thttps://hooks.example.com\tada\t3\t\tanswered 503"
    )


async def test_show_has_the_events_that_were_not_accepted(webhooks, capsys):
    assert await batchq("webhook", "show", "wh-1") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "webhook       chat (wh-1)",
        "owner         ada of account lab",
        "endpoint      https://hooks.example.com (slack)",
    ]
    assert lines[-1].startswith("not accepted  7  ")
    assert lines[-1].endswith("answered 400")


@pytest.mark.parametrize(
    ("words", "sent", "line"),
    [
        ("test", {}, "delivered: answered 200"),
        ("enable", {"enabled": True}, "webhook chat enabled"),
        ("disable", {"enabled": False}, "webhook chat disabled"),
        ("delete", {}, "webhook chat deleted"),
        ("redeliver", {}, "2 events will be delivered again"),
        ("redeliver 7 8", {"numbers": [7, 8]}, "2 events will be delivered again"),
        ("redeliver --after 0", {"after": 0}, "all events after number 0 will be delivered again"),
    ],
)
async def test_a_change_names_the_callers_own_webhook_by_its_id(webhooks, capsys, words, sent, line):
    verb, *more = words.split()

    assert await batchq("webhook", verb, "chat", *more) == 0

    operation = "update" if verb in {"enable", "disable"} else verb
    assert last(webhooks) == (f"/v1/batchq/{operation}webhook", {"webhook": "wh-1"} | sent)
    assert capsys.readouterr().out == f"{line}\n"


async def test_rotate_prints_the_new_secret(webhooks, capsys):
    webhooks.responses["/v1/batchq/updatewebhook"] = {"webhook": CHAT, "secret": SECRET}

    assert await batchq("webhook", "rotate", "chat") == 0

    assert capsys.readouterr().out == f"{SECRET}\n"


async def test_a_test_that_fails_ends_with_its_reason(webhooks, capsys):
    webhooks.responses["/v1/batchq/testwebhook"] = {"verdict": "FAILED", "text": "answered 503"}

    assert await batchq("webhook", "test", "chat") == 1

    assert "not delivered: answered 503" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["show", "unknown"],
        ["redeliver", "chat", "7", "--after", "1"],
        ["create", "x", URL, "--kind", "none", "--kind", "failed"],
    ],
)
async def test_a_request_that_is_not_valid_is_refused(webhooks, words):
    assert await ended("webhook", *words) != 0
