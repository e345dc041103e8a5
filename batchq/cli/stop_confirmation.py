"""The question before `cancel` and `terminate` stop many jobs that filters select."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from batchq.cli.http_client import stream
from batchq.cli.output import escape
from batchq.cli.search_filters import ACTIVE
from batchq.cli.terminal import is_terminal
from batchq.errors import BatchqError

WIDE = 20  # jobs that are stopped without a question
MAX_IDS = 5000  # of one request
UNCHANGED = {"ALREADY_FINISHED", "NOT_MATCHED", "NOT_FOUND"}

Request = dict[str, Any]


class Declined(BatchqError):
    """The user did not confirm the request; nothing was requested."""


class Selection(Struct, frozen=True):
    """The jobs that a request would stop."""

    #: Ids, with steps.
    ids: list[str]
    #: How many of them have started.
    active: int


def asks(args: Namespace) -> bool:
    """Whether the user can be asked: the jobs are selected by filters alone, on a terminal, without `--yes`."""
    can_answer = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    return can_answer and not (args.yes or args.dry_run or args.jobs)


def confirmed(url: str, path: str, request: Mapping[str, object], *, verb: str, timeout: float) -> Request:
    """The request, after a question if it would stop more than WIDE jobs.

    It names the jobs that the question counted, so that no job is stopped that was submitted after it. Raises Declined
    if the answer is not `y`, and the errors of `stream`.
    """
    selection = _dry_run(url, path, request, timeout=timeout)
    if len(selection.ids) <= WIDE:
        return dict(request)
    question = f"{verb} {len(selection.ids)} jobs, {selection.active} of them started? [y/N] "
    print(escape(f"batchq: {question}"), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined("nothing is changed")
    return {**request, **({"jobs": selection.ids} if len(selection.ids) <= MAX_IDS else {})}


def _dry_run(url: str, path: str, request: Mapping[str, object], *, timeout: float) -> Selection:
    with stream(url, path, {**request, "dryRun": True}, timeout=timeout) as objects:
        jobs = [it for it in objects if "outcome" in it and it["outcome"] not in UNCHANGED]
    return Selection([str(it["jobId"]) for it in jobs], sum(it.get("status") in ACTIVE for it in jobs))
