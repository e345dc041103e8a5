"""`batchq webhook`: create, list, show, test and delete webhooks, and have events delivered again."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence

from batchq.cli.http_client import TIMEOUT, call, url_of
from batchq.cli.output import DONE, REFUSED, is_terminal, print_error, print_notice, write_line
from batchq.cli.quantities import iso_text, local_time
from batchq.cli.server_requests import fetch_caller
from batchq.cli.tables import (
    Column,
    Field,
    add_json_flags,
    add_parser,
    print_list,
    print_result,
    text_column,
    time_column,
)
from batchq.domain.enums import DeliveryVerdict, EventKind, WebhookFormat
from batchq.errors import NotFound, UsageError
from batchq.ports.responses.server import EmptyResponse
from batchq.ports.responses.webhooks import (
    ListWebhooksResponse,
    TestWebhookResponse,
    WebhookResponse,
    WebhookSecretResponse,
)
from batchq.system.escapes import escape

PATH = "/v1/batchq/{}webhook"
LIST_WEBHOOKS = "/v1/batchq/listwebhooks"
TEST_TIMEOUT = 20.0  # seconds of a test, beside those of any request
_NO_KINDS = "none"

COLUMNS: tuple[Column[WebhookResponse], ...] = (
    text_column("NAME", lambda row: row.webhook_name),
    text_column("STATE", lambda row: row.state),
    text_column("FORMAT", lambda row: row.format.lower()),
    text_column("ENDPOINT", lambda row: row.endpoint, elastic=True),
    text_column("USER", lambda row: row.user),
    text_column("DELIVERED", lambda row: row.delivered, right=True),
    time_column("LAST", lambda row: row.delivered_at),
    text_column("FAILURE", lambda row: row.disabled_reason or row.failure, elastic=True),
)


def add_webhook(command: ArgumentParser) -> None:
    """Send events of jobs to a URL: a program of your own (signed JSON), Slack, Discord, ntfy or Matrix.

    A webhook receives only events of jobs that you may see, from now on, each at least once and in order.

      batchq webhook create ci https://ci.example.com/batchq --kind FAILED -q gpu
      batchq webhook create chat https://hooks.slack.com/services/... --format slack
      batchq webhook test chat
      batchq webhook redeliver ci --after 1200
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    _add_create(add_parser(subcommands, "create", "create a webhook, and print its secret", run_create))
    add_parser(subcommands, "list", "list the webhooks that you may see", run_list_webhooks, prints_list=True)
    showing = _add_named(
        subcommands, "show", "print a webhook, with the events that it did not accept", run_show_webhook
    )
    add_json_flags(showing)
    _add_named(subcommands, "test", "send a test message, and print how it was answered", run_test)
    again = _add_named(subcommands, "redeliver", "deliver events again, by default those not accepted", run_redeliver)
    again.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="numbers of events, as `batchq events`")
    again.add_argument("--after", type=int, metavar="NUMBER", help="all events after this number")
    for name, summary, enabled in (
        ("enable", "deliver again, also what occurred meanwhile", True),
        ("disable", "deliver nothing", False),
    ):
        _add_named(subcommands, name, summary, run_switch).set_defaults(enabled=enabled)
    _add_named(subcommands, "rotate", "print a new secret; the old one signs too for 24 hours", run_rotate)
    _add_named(subcommands, "delete", "delete a webhook", run_delete)


def _add_named(subcommands: object, name: str, summary: str, run: Callable[[Namespace], int | None]) -> ArgumentParser:
    command = add_parser(subcommands, name, summary, run)
    command.add_argument("webhook", metavar="WEBHOOK", help="name or id")
    return command


def _add_create(command: ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name, unique among your webhooks")
    command.add_argument("endpoint", metavar="URL", help="URL that begins with https://; - reads it from stdin")
    formats = [form.lower() for form in WebhookFormat]
    command.add_argument("--format", choices=formats, default=formats[0], help="body of the requests (standard)")
    text = "read the token of the header `Authorization: Bearer` from stdin, behind the URL if that is read too"
    command.add_argument("--token-stdin", action="store_true", help=text)
    text = "kinds of events: a state, STOP_ORDER, HOLD or GROUP_ENDED; none: only jobs with --notify; repeated"
    command.add_argument(
        "--kind",
        action="append",
        type=str.upper,
        choices=[*EventKind, _NO_KINDS.upper()],
        metavar="KIND",
        help=f"{text} (SUCCEEDED, FAILED, GROUP_ENDED)",
    )
    for flags, member, text in (
        (("-q", "--queue"), "queues", "only jobs of this queue"),
        (("-A", "--account"), "accounts", "only jobs of this account"),
        (("-u", "--user"), "users", "only jobs of this user"),
        (("--group",), "groups", "only jobs of groups with this name, as 'fit*'"),
        (("-n", "--name"), "names", "only jobs with this name, as 'train-*'"),
    ):
        command.add_argument(*flags, dest=member, action="append", help=f"{text}; repeated")
    command.add_argument("--me", action="store_true", help="only your own jobs")
    command.add_argument("--children", action="store_true", help="also children of arrays")


def run_create(args: Namespace) -> None:
    url = url_of(args)
    request: dict[str, object] = {
        "webhookName": args.name,
        "url": sys.stdin.readline().strip() if args.endpoint == "-" else args.endpoint,
        "format": args.format.upper(),
        "children": args.children,
    }
    token = sys.stdin.readline().strip() if args.token_stdin else None
    users = [*(args.users or ()), *([fetch_caller(url).user] if args.me else ())]
    given = {
        "token": token,
        "jobQueues": args.queues,
        "accounts": args.accounts,
        "users": users,
        "groupNames": args.groups,
        "jobNames": args.names,
    }
    request |= {name: value for name, value in given.items() if value}
    if args.kind:
        request["eventKinds"] = _kinds(args.kind)
    created = call(url, PATH.format("create"), request, answer=WebhookSecretResponse)
    _print_secret(created)


def run_list_webhooks(args: Namespace) -> None:
    answer = call(url_of(args), LIST_WEBHOOKS, {}, answer=ListWebhooksResponse)
    print_list(args, answer, answer.webhooks, COLUMNS, empty="there are no webhooks")


def run_show_webhook(args: Namespace) -> None:
    webhook = find_webhook(url_of(args), args.webhook)
    fields = [f"{label:<14}{value}" for label, value in _fields(webhook)]
    rejected = [
        f"not accepted  {event.number}  {iso_text(local_time(event.at))}  {event.reason}"
        for event in webhook.undelivered
    ]
    print_result(args, webhook, [*fields, *rejected])


def run_test(args: Namespace) -> int:
    url = url_of(args)
    request = {"webhook": find_webhook(url, args.webhook).webhook_id}
    outcome = call(url, PATH.format("test"), request, answer=TestWebhookResponse, timeout=TIMEOUT + TEST_TIMEOUT)
    if outcome.verdict is not DeliveryVerdict.DELIVERED:
        return print_error(f"the test message was not delivered: {outcome.text}", REFUSED)
    write_line(escape(f"delivered: {outcome.text}"))
    return DONE


def run_redeliver(args: Namespace) -> None:
    if args.numbers and args.after is not None:
        raise UsageError("numbers of events and --after exclude each other")
    given = {"numbers": args.numbers or None, "after": args.after}
    members = {name: value for name, value in given.items() if value is not None}
    changed = _change(args, "redeliver", **members).webhook
    if args.after is None:
        write_line(f"{len(changed.redelivering)} events will be delivered again")
    else:
        write_line(f"all events after number {args.after} will be delivered again")


def run_switch(args: Namespace) -> None:
    _change(args, "update", enabled=args.enabled)
    write_line(escape(f"webhook {args.webhook} {'enabled' if args.enabled else 'disabled'}"))


def run_rotate(args: Namespace) -> None:
    _print_secret(_change(args, "update", rotateSecret=True))


def run_delete(args: Namespace) -> None:
    url = url_of(args)
    call(url, PATH.format("delete"), {"webhook": find_webhook(url, args.webhook).webhook_id}, answer=EmptyResponse)
    write_line(escape(f"webhook {args.webhook} deleted"))


def find_webhook(url: str, name: str) -> WebhookResponse:
    """The webhook with this id or name: of several with the same name the caller's own. Raises NotFound; UsageError."""
    found = call(url, LIST_WEBHOOKS, {}, answer=ListWebhooksResponse).webhooks
    named = [webhook for webhook in found if name in {webhook.webhook_id, webhook.webhook_name}]
    if len(named) > 1:
        user = fetch_caller(url).user
        named = [webhook for webhook in named if webhook.user == user] or named
    if not named:
        raise NotFound(f"webhook {name} not found")
    if len(named) > 1:
        raise UsageError(f"several users have a webhook {name}: give its id, as `webhook list -o json` prints it")
    return named[0]


def require_own_webhook(url: str, name: str) -> None:
    """Raise NotFound if the caller has no webhook of this name: the end of a job would be sent nowhere."""
    user = fetch_caller(url).user
    found = call(url, LIST_WEBHOOKS, {}, answer=ListWebhooksResponse).webhooks
    if not any(webhook.webhook_name == name and webhook.user == user for webhook in found):
        raise NotFound(f"you have no webhook {name}: create it by `batchq webhook create {name} URL`")


def _change(args: Namespace, operation: str, **members: object) -> WebhookSecretResponse:
    url = url_of(args)
    request = {"webhook": find_webhook(url, args.webhook).webhook_id, **members}
    return call(url, PATH.format(operation), request, answer=WebhookSecretResponse)


def _kinds(words: Sequence[str]) -> list[str]:
    if _NO_KINDS.upper() not in words:
        return list(words)
    if len(words) > 1:
        raise UsageError("--kind none excludes other kinds")
    return []


def _print_secret(changed: WebhookSecretResponse) -> None:
    """Print the secret alone on stdout, for a file or a variable."""
    if changed.secret is None:
        write_line(escape(f"webhook {changed.webhook.webhook_name} created"))
        return
    write_line(changed.secret)
    if is_terminal():
        print_notice("this is the secret that signs the requests; it is not shown again")


def _fields(webhook: WebhookResponse) -> list[Field]:
    """The fields that have a value."""
    numbers = {"position": webhook.position, "delivered": webhook.delivered}
    times = {
        "created": webhook.created_at,
        "last success": webhook.delivered_at,
        "failing since": webhook.failing_since,
        "next try": webhook.next_try_at,
    }
    lists = {
        "kinds": webhook.event_kinds,
        "queues": webhook.job_queues,
        "accounts": webhook.accounts,
        "users": webhook.users,
        "groups": webhook.group_names,
        "names": webhook.job_names,
    }
    fields: dict[str, str | None] = {
        "webhook": f"{webhook.webhook_name} ({webhook.webhook_id})",
        "owner": f"{webhook.user} of account {webhook.account}",
        "endpoint": f"{webhook.endpoint} ({webhook.format.lower()})",
        "state": webhook.state,
        "disabled": webhook.disabled_reason,
        "failure": webhook.failure,
        **{label: ", ".join(values) for label, values in lists.items()},
        "children": "yes" if webhook.children else None,
        **{label: str(number) for label, number in numbers.items()},
        **{label: iso_text(local_time(at)) for label, at in times.items()},
    }
    return [(label, value) for label, value in fields.items() if value]
