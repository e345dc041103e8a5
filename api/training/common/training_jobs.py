"""What the dialects for training jobs have in common.

The `client_document` of a job has the name of the dialect that created it, and those members of the request that
are only returned.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.container import ContainerSpec
from batchq.domain.cost import run_time
from batchq.domain.job import Job
from batchq.domain.task import NodeRange, Nodes, Task, TaskContainer
from batchq.errors import Invalid
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.services.job_reads import JobSearchService

MAX_REQUEST = 30 * 1024  # bytes: what is stored with a job is limited as in SubmitJob
HYPERPARAMETERS = "/opt/ml/input/config/hyperparameters.json"  # SageMaker's path
MAX_VARIABLE = 4096  # characters of a variable's value
MAX_PAGES = 5  # pages of the job search that one request reads: not every job of a page has the requested status
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:./#@-]{0,254}", re.ASCII)
NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9_]")

_NOT_IN_SHARES = re.compile(r"[^A-Za-z0-9]")


def account_share(caller: Caller, *, default: str) -> str:
    """The share identifier of the caller's jobs in a queue with a policy: their account, as far as AWS allows."""
    return _NOT_IN_SHARES.sub("", caller.account)[:255] or default


def identical_nodes(container: ContainerSpec, count: int) -> Nodes | None:
    """`count` nodes that run the same container, the first one as the main node; None for one node."""
    if count == 1:
        return None
    task = Task(containers=(TaskContainer(name="default", spec=container),))
    return Nodes(count=count, main=0, ranges=(NodeRange(first=0, last=count - 1, task=task),))


def bucket_folder(path: str, root: Path) -> str | None:
    """The folder of `bucket/key` below `root`; None without a bucket, and for a path with `..` or a colon."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if not parts or ".." in parts or any(":" in part for part in parts):
        return None
    return str(PurePosixPath(root, *parts))


def without_root(text: str, root: Path | None, scheme: str) -> str:
    """The text with the URI of each folder below `root`: `/srv/s3/b/k` as `s3://b/k`, if `scheme` is `s3://`.

    The paths of the server's folders are not sent to callers, who know the URIs only.
    """
    names = () if root is None else (str(root), os.path.realpath(root))
    for name in names:
        text = text.replace(f"{name}/", scheme) if name != "/" else text
    return text


@contextmanager
def naming_uris(root: Path | None, scheme: str) -> Iterator[None]:
    """Replace the paths in the text of an Invalid, as `without_root` does."""
    try:
        yield
    except Invalid as why:
        if type(why) is not Invalid:  # the others have codes of their own, and name no paths
            raise
        raise Invalid(without_root(str(why), root, scheme)) from None


def stored_document(job: Job, dialect: str) -> Mapping[str, Any]:
    """What the dialect stored with the job; empty for a job of another dialect."""
    found: Mapping[str, Any] = json.loads(job.spec.client_document or "{}")
    return found if found.get("dialect") == dialect else {}


def is_marked(job: Job, tag: str) -> bool:
    """Whether the value of the tag is the job's id: a rerun has a copy of the tag, with the id of the first job."""
    return dict(job.tags).get(tag) == job.id


def running_time(job: Job, now: datetime) -> timedelta:
    """The total time that the containers of all attempts have run."""
    return sum((run_time(attempt, now) for attempt in job.all_attempts), timedelta())


def first_start(job: Job) -> datetime | None:
    """When the first attempt of the job that ran began to run; None if none did."""
    return next((attempt.started_at for attempt in job.all_attempts if attempt.started_at is not None), None)


async def matching_jobs(
    search: JobSearchService, query: PageQuery, matches: Callable[[Job], bool], *, caller: Caller
) -> tuple[list[Job], SearchPosition | None]:
    """Up to `query.limit` jobs of the search for which `matches` is true, and where the next page continues.

    The position is None if no further job is found. A page may have fewer jobs although more follow.
    """
    found: list[Job] = []
    for _ in range(MAX_PAGES):
        page = await search.search(replace(query, limit=query.limit - len(found)), caller=caller)
        found += filter(matches, page.jobs)
        query = replace(query, before=page.next)
        if page.next is None or len(found) == query.limit:
            break
    return found, query.before
