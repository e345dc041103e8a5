"""Jobs whose stored records are damaged while their containers run. Decision 0015.

With simulated containers only; `tests/engine/test_damage.py` has the damages.
"""

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.task import DefinitionForm, NodeRange, Nodes
from tests.support.builders import task
from tests.support.scripts import Script, contained

pytestmark = pytest.mark.fault("LC06")

LONG = Script(seconds=3600, on_term=0)
PAIR = task(contained("main", LONG), contained("side", LONG))
FORMS = {
    "task": {"task": PAIR},
    "nodes": {
        "nodes": Nodes(
            count=2, form=DefinitionForm.NODES, ranges=(NodeRange(first=0, last=1, task=task(contained("main", LONG))),)
        )
    },
}


def damage(connection, job, column):
    table = "job_specs" if column == "spec" else "jobs"
    connection.execute(
        f"UPDATE {table} SET {column} = '{{' WHERE sequence = (SELECT sequence FROM jobs WHERE id = '{job}')"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", ["spec", "state"])
async def test_no_container_of_a_damaged_job_is_left(simulated, form, column):
    world = simulated
    job = await world.start(**FORMS[form])
    await world.wait_until_idle()
    await world.crash()
    damage(world.store.store.connection, job, column)

    await world.boot()

    await world.wait_for(job, Status.FAILED, status_reason=status_reasons.UNREADABLE)
    await world.wait_until_containers_are_gone()
