"""Restored data whose arrays were backed up in the middle of their spawning."""

import pytest

from batchq.domain import effects as do
from batchq.domain.ids import Tag, child_id
from batchq.domain.job import Status
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine.messages import ContinueWork, LeaveSafeMode, SurveyCompleted
from batchq.errors import Invalid
from batchq.ports.jobs import Changes, Restoration
from tests.engine.desk import LOOKED, ONE, answer, desk_over, submit
from tests.engine.turns import HOST
from tests.support.builders import ADMIN, NOON


async def test_safe_mode_attaches_the_container_of_an_unspawned_child():
    desk = await desk_over()
    await desk.process(LOOKED, submit(ONE, array_size=3))
    await desk.store.commit(Changes(restoration=Restoration(at=NOON)))
    await desk.loop.load()
    tag = Tag(job_id=child_id(ONE, 2), attempt=1)
    runs = SurveyCompleted(containers=(SurveyedContainer(tag=tag, running=True),), expected=frozenset(), capacity=HOST)
    await desk.process(runs)
    early, late = (
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
        LeaveSafeMode(purge=True, answer=answer(), caller=ADMIN),
    )

    await desk.process(early, ContinueWork())
    await desk.process(runs)
    await desk.process(late)

    with pytest.raises(Invalid, match="still spawning children"):
        await early.answer
    assert late.answer.done()
    assert (await desk.store.jobs([tag.job_id]))[tag.job_id].status is Status.STARTING
    assert do.StartContainer(tag=tag) in desk.asked
    assert do.CleanUpContainer(tag=tag) not in desk.asked
