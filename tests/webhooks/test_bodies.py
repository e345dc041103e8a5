"""The requests of each format, and the signature of Standard Webhooks."""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.api.native.long_polls import event_answer
from batchq.domain.access.accounts import Owner
from batchq.domain.enums import Status, StopKind, StopProgress, WebhookFormat
from batchq.domain.stop_values import StopStep
from batchq.domain.webhooks import Webhook
from batchq.ports.history import FeedEntry, GroupEnd
from batchq.webhooks.bodies import event_message, outgoing_request
from batchq.webhooks.signatures import new_secret, signature_header
from tests.support.builders import NOON, job, moment
from tests.webhooks.board import SECRET, URL
from tests.webhooks.receiver import verified

FAILED = job(number=1, status=Status.FAILED, status_reason="Essential container in task exited", stopped_at=NOON)
ROOM = "https://matrix.example.com/_matrix/client/v3/rooms/!a:b/send/m.room.message"


def message_of(of=FAILED, *, name="train", **changes):
    entry = moment(of, **changes)
    owner = Owner(user="ada", account="lab")
    saved = FeedEntry(number=7, entry=entry, job_name=name, queue="gpu", owner=owner)
    return event_message(event_answer(saved), entry.kind, instance="an-instance")


def webhook(form=WebhookFormat.STANDARD, **changes):
    fields = {"id": "wh-1", "name": "chat", "owner": Owner(user="ada"), "url": URL, "created_at": NOON}
    return Webhook(**fields | {"format": form, "secret": SECRET} | changes)


def sent(form, message=None, **changes):
    return outgoing_request(webhook(form, **changes), message or message_of(), NOON)


def test_the_published_example_has_the_published_signature():
    """https://github.com/standard-webhooks/standard-webhooks, the test of its libraries."""
    header = signature_header(
        [SECRET], message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=b'{"test": 2432232314}'
    )

    assert header == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_standard_webhook_is_the_event_with_its_signature():
    request = sent(WebhookFormat.STANDARD)

    content = verified(request.headers, request.body, SECRET, now=NOON.timestamp())
    assert (request.method, request.url, request.headers["Content-Type"]) == ("POST", URL, "application/json")
    assert "Authorization" not in request.headers
    assert content == {
        "type": "job.failed",
        "timestamp": "2026-11-21T12:00:00Z",
        "data": {
            "number": 7,
            "at": 1795262400000,
            "jobId": FAILED.id,
            "jobName": "train",
            "jobQueue": "gpu",
            "user": "ada",
            "account": "lab",
            "status": "FAILED",
            "statusReason": "Essential container in task exited",
        },
    }


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"status": Status.SUCCEEDED}, "job.succeeded"),
        ({"group_end": GroupEnd(group_id="g-1", name="fit", succeeded=9, failed=1)}, "group.ended"),
        (
            {"stop": StopStep(progress=StopProgress.ORDERED, kind=StopKind.CANCEL, ordered_at=NOON, reason="enough")},
            "job.stop_order",
        ),
    ],
)
def test_the_type_names_the_kind_of_the_event(changes, kind):
    assert json.loads(sent(WebhookFormat.STANDARD, message_of(**changes)).body)["type"] == kind


def test_the_repetition_of_an_event_has_the_same_id_and_body_and_another_time():
    first = outgoing_request(webhook(), message_of(), NOON)
    again = outgoing_request(webhook(), message_of(), NOON + timedelta(hours=1))

    assert (first.headers["webhook-id"], first.body) == (again.headers["webhook-id"], again.body)
    assert int(again.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 3600
    other = replace(message_of(), id="msg_other")
    assert sent(WebhookFormat.STANDARD, other).headers["webhook-id"] != first.headers["webhook-id"]


def test_while_a_secret_is_replaced_both_sign():
    new, old = new_secret(), SECRET
    changed = webhook(secret=new, old_secret=old, old_secret_until=NOON + timedelta(hours=24))

    during = outgoing_request(changed, message_of(), NOON)
    later = outgoing_request(changed, message_of(), NOON + timedelta(hours=25))

    verified(during.headers, during.body, new)
    verified(during.headers, during.body, old)
    verified(later.headers, later.body, new)
    with pytest.raises(AssertionError):
        verified(later.headers, later.body, old)


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "body"])
def test_a_changed_message_has_no_valid_signature(part):
    request = sent(WebhookFormat.STANDARD)
    headers, body = dict(request.headers), request.body
    if part == "body":
        body = body.replace(b"FAILED", b"SUCCEEDED")
    else:
        headers[part] = "1"

    with pytest.raises(AssertionError):
        verified(headers, body, SECRET)


TEXT = "train FAILED: Essential container in task exited (job 00000000, queue gpu)"


def test_each_chat_gets_a_line_of_text():
    slack, discord = sent(WebhookFormat.SLACK), sent(WebhookFormat.DISCORD)
    ntfy, matrix = sent(WebhookFormat.NTFY), sent(WebhookFormat.MATRIX, url=ROOM, token="a-token")

    assert json.loads(slack.body) == {"text": TEXT}
    assert json.loads(discord.body) == {"content": TEXT, "allowed_mentions": {"parse": []}, "flags": 4}
    assert (ntfy.body.decode(), ntfy.headers["Title"], ntfy.headers["Tags"]) == (TEXT, "batchq", "job.failed")
    assert (matrix.method, matrix.url) == ("PUT", f"{ROOM}/{message_of().id}")
    assert json.loads(matrix.body) == {"msgtype": "m.notice", "body": TEXT, "m.mentions": {}}
    assert matrix.headers["Authorization"] == "Bearer a-token"
    for request in (slack, discord, ntfy):
        assert not {"Authorization", "webhook-signature"} & set(request.headers)


def test_the_end_of_a_group_is_told_by_its_counts():
    ended = message_of(group_end=GroupEnd(group_id="g-1", name="fit", succeeded=190, failed=7, stopped=3))

    assert json.loads(sent(WebhookFormat.SLACK, ended).body)["text"] == (
        "group fit ended: 190 succeeded, 7 failed, 3 stopped"
    )


HOSTILE = "<!channel> @everyone [x](https://evil.example) `*_~|\r\nTitle: other\u202e\ud800"


@pytest.mark.fault("SE88")
@pytest.mark.parametrize("form", WebhookFormat)
def test_text_of_a_user_is_no_markup_no_mention_and_no_header(form):
    reason = message_of(reason=HOSTILE)
    request = sent(form, reason, **({"url": ROOM, "token": "t"} if form is WebhookFormat.MATRIX else {}))

    assert not any("\n" in header or "\r" in header or "other" in header for header in request.headers.values())
    body = request.body.decode()
    if form is WebhookFormat.STANDARD:
        assert json.loads(body)["data"]["statusReason"] == HOSTILE
        return
    text = body if form is WebhookFormat.NTFY else next(iter_texts(json.loads(body)))
    assert not any(letter in text for letter in "\r\n\u202e")
    if form is WebhookFormat.SLACK:
        assert "<" not in text
        assert "&lt;!channel&gt;" in text
    if form is WebhookFormat.DISCORD:
        assert r"\[x\](" in text
        assert r"\`\*\_\~\|" in text


def iter_texts(content):
    return (content[name] for name in ("text", "content", "body") if name in content)


@pytest.mark.parametrize("form", [WebhookFormat.SLACK, WebhookFormat.DISCORD, WebhookFormat.NTFY])
def test_a_long_reason_is_cut(form):
    assert len(sent(form, message_of(reason="x" * 10_000)).body) < 2000
