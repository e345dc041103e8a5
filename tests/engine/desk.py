"""A loop at its desk: it reads the messages a test hands it, over a store in memory."""

import asyncio

from batchq.engine.engine_identity import EngineCheck
from batchq.engine.loop import EngineLoop
from batchq.engine.mailbox import JobEvent, Mailbox, Submit, SurveyCompleted
from batchq.engine.supervisor import Supervisor
from tests.engine.turns import HOST, ground, stored
from tests.support.builders import ADMIN, NO_ACCOUNTS, job_id, spec
from tests.support.clock import VirtualClock
from tests.support.observing import NoObserver

ONE, TWO = job_id(1_000_000), job_id(1_000_001)
LOOKED = SurveyCompleted(containers=(), expected=frozenset(), capacity=HOST)


class Desk:
    """A loop over a store, and what it asked of the outside."""

    def __init__(self, store, on_ground, accounts=NO_ACCOUNTS):
        self.store, self.asked = store, []
        clock = VirtualClock()
        self.inbox, self.tasks = Mailbox(), Supervisor(clock)
        self.loop = EngineLoop(
            mailbox=self.inbox,
            store=store,
            catalog=on_ground,
            accounts=accounts,
            clock=clock,
            execute=lambda effect, _: self.asked.append(effect),
            on_saved=lambda _: None,
            tasks=self.tasks,
            engine_check=EngineCheck(),
            observer=NoObserver(),
        )

    async def process(self, *messages):
        await self.loop.process(messages)

    async def status(self, job):
        return (await self.store.jobs([job.id]))[job.id].status


async def desk_over(*jobs, on_ground=None, accounts=NO_ACCOUNTS):
    """A desk with these jobs in its store, before its first unit of work."""
    desk = Desk(await stored(*jobs), on_ground or ground(), accounts)
    await desk.loop.load()
    return desk


def answer():
    return asyncio.get_running_loop().create_future()


def submit(new, key=None, caller=ADMIN, **asked):
    return Submit(job_id=new, spec=spec(**asked), tags=(), key=key, caller=caller, answer=answer())


def request(job, event):
    return JobEvent(job_id=job.id, event=event, answer=answer())


def news(job, event):
    return JobEvent(job_id=job.id, event=event)
