"""What a survey reports of the containers that the engine has."""

from batchq.domain.ids import Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine.containers.watcher import Watcher
from batchq.ports.runtime import ContainerState, EngineIdentity, Inspection
from tests.support.builders import job_id, resources
from tests.support.clock import VirtualClock

EXPECTED, OTHER, RUNS = (Tag(job_id=job_id(number), attempt=1) for number in range(3))


class Engine:
    async def survey(self):
        removing = [Inspection(tag=it, state=ContainerState.GOING) for it in (EXPECTED, OTHER)]
        return [*removing, Inspection(tag=RUNS, state=ContainerState.RUNNING)]

    async def capacity(self):
        return resources()

    async def lost_before(self):
        return None

    async def identity(self):
        return EngineIdentity(id="an-engine", time=None)


async def test_containers_being_removed_are_left_out_of_a_survey_unless_they_are_expected():
    posted = []
    watcher = Watcher(
        runtime=Engine(),
        clock=VirtualClock(),
        survey_interval=60,
        expected=lambda: frozenset({EXPECTED}),
        on_death=posted.append,
        post=posted.append,
    )

    await watcher._survey_once()

    (surveyed,) = posted
    assert surveyed.containers == (
        SurveyedContainer(tag=EXPECTED, running=False, started=True),
        SurveyedContainer(tag=RUNS, running=True, started=True),
    )
