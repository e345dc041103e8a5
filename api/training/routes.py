"""The training dialect."""

from aiohttp import web

from batchq.api.dialect_profiles import register
from batchq.api.http import Dialect
from batchq.api.training import checkpoints, create_job, read_jobs, stop_jobs
from batchq.api.training.context import TrainingContext
from batchq.api.training.errors import profile

_TABLES = (create_job, read_jobs, stop_jobs, checkpoints)


def dialect(context: TrainingContext) -> Dialect:
    def mount(app: web.Application) -> None:
        register(app, profile(lambda: context.clock.now()))  # noqa: PLW0108 - the context is read by handlers only
        for it in _TABLES:
            it.operations.mount(app, context)

    return mount
