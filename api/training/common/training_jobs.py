"""What the dialects for training jobs have in common: their jobs, the folders of their URIs, and their lists."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.job import Job
from batchq.domain.training_jobs import TrainingJobView
from batchq.errors import Invalid
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.services.job_reads import JobSearchService
from batchq.services.jobs import JobService

MAX_PAGES = 5  # pages of the job search that one request reads: not every job of a page matches


class TrainingDialect(Struct, frozen=True):
    """The jobs of one dialect. `client_document` of a job has the dialect's name and what the dialect stored."""

    name: str

    def document(self, returned: Mapping[str, object], *, request: str = "") -> str:
        """The `client_document` of a job. `returned`: the members that are only returned. `request`: its digest."""
        content = {"dialect": self.name, "request": request, "job": returned}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    def created(self, job: Job) -> bool:
        """Whether the dialect created the job."""
        return bool(self._stored(job))

    def returned(self, job: Job) -> Mapping[str, Any]:
        """The members of the request that are only returned; empty for a job of another dialect."""
        members: Mapping[str, Any] = self._stored(job).get("job", {})
        return members

    def request(self, job: Job) -> str:
        """The digest of the request that created the job; empty for a job of another dialect."""
        return str(self._stored(job).get("request", ""))

    def is_deleted(self, job: Job) -> bool:
        """Whether the job was deleted in the dialect. The id of the job is compared: a rerun has a copy of the tag."""
        return dict(job.tags).get(self._deleted) == job.id

    async def delete(self, jobs: JobService, job: Job, *, caller: Caller) -> None:
        """Hide the job from the dialect. Its record remains until the server's retention removes it."""
        await jobs.tag(job.id, ((self._deleted, job.id),), caller=caller)

    @property
    def _deleted(self) -> str:
        return f"{self.name}:deleted"

    def _stored(self, job: Job) -> Mapping[str, Any]:
        stored: Mapping[str, Any] = json.loads(job.spec.client_document or "{}")
        return stored if stored.get("dialect") == self.name else {}


@cache
def root_names(root: Path) -> tuple[str, str]:
    """The folder as it was configured, and without links.

    It is read once, at the start of the server: on a file system that hangs it would hold the event loop.
    """
    return str(root), os.path.realpath(root)


class BucketFolders(Struct, frozen=True):
    """The folders of this machine that stand for buckets. Callers know their URIs only, and receive no path."""

    #: The folder with a folder for each bucket; None: no URI can be used.
    root: Path | None
    #: The beginning of URIs, as `s3://`.
    scheme: str

    def folder(self, path: str) -> str | None:
        """The folder of `bucket/key`; None without a bucket, and for a path with `..` or a colon."""
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if self.root is None or not parts or ".." in parts or any(":" in part for part in parts):
            return None
        return str(PurePosixPath(self.root, *parts))

    def shown(self, text: str) -> str:
        """The text with the URI of each folder below the root: `/srv/s3/b/k` as `s3://b/k`."""
        for name in () if self.root is None else root_names(self.root):
            text = text.replace(f"{name}/", self.scheme) if name != "/" else text
        return text

    @contextmanager
    def naming_uris(self) -> Iterator[None]:
        """Replace the paths in the text of an Invalid."""
        try:
            yield
        except Invalid as why:
            if type(why) is not Invalid:  # the others have codes of their own, and name no paths
                raise
            raise Invalid(self.shown(str(why))) from None


async def matching_jobs(
    search: JobSearchService, query: PageQuery, matches: Callable[[TrainingJobView], bool], *, caller: Caller
) -> tuple[list[TrainingJobView], SearchPosition | None]:
    """Up to `query.limit` jobs of the search for which `matches` is true, and where the next page continues.

    The position is None if no further job is found. A page may have fewer jobs although more follow.
    """
    views: list[TrainingJobView] = []
    for _ in range(MAX_PAGES):
        page = await search.search(replace(query, limit=query.limit - len(views)), caller=caller)
        views += filter(matches, map(TrainingJobView, page.jobs))
        query = replace(query, before=page.next)
        if page.next is None or len(views) == query.limit:
            break
    return views, query.before
