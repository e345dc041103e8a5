"""Routes of the training dialect."""

from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from batchq.api.dialect_profiles import register
from batchq.api.http import Dialect
from batchq.api.openapi import OperationDoc, document
from batchq.api.training import cancel_job, checkpoints, create_job, pause_job, read_jobs
from batchq.api.training.context import JOB, JOBS, TrainingContext
from batchq.api.training.errors import profile

Handler = Callable[[web.Request], Awaitable[web.Response]]


def dialect(context: TrainingContext) -> Dialect:
    def mount(app: web.Application) -> None:
        register(app, profile(lambda: context.clock.now()))  # noqa: PLW0108 - the context is read by handlers only

        def add(method: str, path: str, handler: Handler, doc: OperationDoc) -> None:
            document(app, app.router.add_route(method, path, handler), doc)

        add("POST", JOBS, partial(create_job.create, context), create_job.DOC)
        add("GET", JOBS, read_jobs.JobLister(context).handle, read_jobs.LIST_DOC)
        add("GET", JOB, partial(read_jobs.get, context), read_jobs.GET_DOC)
        add("POST", f"{JOB}/cancel", cancel_job.JobCanceller(context).handle, cancel_job.DOC)
        add("POST", f"{JOB}/pause", partial(pause_job.pause, context), pause_job.PAUSE_DOC)
        add("POST", f"{JOB}/resume", partial(pause_job.resume, context), pause_job.RESUME_DOC)
        add("GET", checkpoints.CHECKPOINTS, partial(checkpoints.list_, context), checkpoints.LIST_DOC)
        add("POST", checkpoints.CHECKPOINTS, partial(checkpoints.create, context), checkpoints.CREATE_DOC)
        add("GET", checkpoints.CHECKPOINT, partial(checkpoints.get, context), checkpoints.GET_DOC)
        add("DELETE", checkpoints.CHECKPOINT, partial(checkpoints.delete, context), checkpoints.DELETE_DOC)

    return mount
