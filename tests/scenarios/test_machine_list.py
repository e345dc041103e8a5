"""The list of machines: their states, what jobs request of each, and the jobs on them that a caller may see."""

import pytest

from batchq.domain.access.accounts import AccountName, Caller, UserName
from batchq.domain.container import Resources
from batchq.domain.enums import MachineState, Role, Status
from batchq.errors import Invalid
from batchq.server.health import machine_readings
from batchq.services.machines import MachineQuery, machine_page
from tests.scenarios.test_machines import machine, on
from tests.support.builders import ADMIN, NOON, gang, task
from tests.support.scripts import LASTING, contained, spec

STRANGER = Caller(user=UserName("eve"), account=AccountName("other"), role=Role.USER)


def listed(world, *, caller=ADMIN, limit=100, max_jobs=10, **members):
    query = MachineQuery(limit=limit, max_jobs=max_jobs, **members)
    return machine_page(world.engine, query, caller=caller)


async def known(world, *machines):
    """Restart the server on these machines, and wait until it has listed them."""
    await on(world, *machines)
    await world.sleep(30)


def names(page):
    return [(other_machine.machine.name, other_machine.machine.state) for other_machine in page.machines]


async def test_a_running_job_is_on_one_machine_which_counts_what_it_requests(world):
    job = await world.start(LASTING, millicpus=1000, memory_mib=64)

    found = [other_machine for other_machine in listed(world).machines if other_machine.job_count]

    assert [(overview.machine.state, overview.requested, overview.job_count) for overview in found] == [
        (MachineState.READY, Resources(millicpus=1000, memory_mib=64), 1)
    ]
    assert [job.id for job in found[0].jobs] == [job]
    assert found[0].requested.memory_mib <= found[0].machine.resources.memory_mib


async def test_a_machine_without_jobs_has_nothing_requested(world):
    assert {(other_machine.requested, other_machine.job_count) for other_machine in listed(world).machines} == {
        (Resources(millicpus=0, memory_mib=0), 0)
    }


async def test_machines_that_do_not_answer_come_first_and_cordoned_ones_next(simulated):
    closed = {"is_cordoned": True, "away_since": NOON}
    await known(
        simulated, machine("d", is_cordoned=True), machine("c", **closed), machine("b"), machine("a"), machine("e")
    )

    page = listed(simulated)

    away, cordoned, ready = MachineState
    assert names(page) == [("c", away), ("d", cordoned), ("a", ready), ("b", ready), ("e", ready)]
    assert page.counts == {away: 1, cordoned: 1, ready: 3}
    assert page.machines[0].machine.away_since == NOON


async def test_the_jobs_of_a_machine_that_does_not_answer_remain_on_it(simulated):
    await on(simulated, machine("a"), machine("b"))
    job = await simulated.start(LASTING, queue="wide", millicpus=2000)

    simulated.runtime.runtime.engine.disconnect("a")
    await simulated.sleep(30)

    first = listed(simulated).machines[0]
    assert (first.machine.name, first.machine.state) == ("a", MachineState.AWAY)
    assert [job.id for job in first.jobs] == [job]
    assert first.requested.millicpus == 2000
    simulated.runtime.runtime.engine.reconnect("a")


async def test_a_gang_is_on_each_of_its_machines_once(simulated):
    await on(simulated, machine("a"), machine("b"), machine("c"))
    each = task(contained("default", LASTING, spec=spec(LASTING, resources=Resources(millicpus=2000, memory_mib=64))))
    job = await simulated.submit(queue="wide", nodes=gang(3, each=each))
    await simulated.wait_for(job, Status.RUNNING)

    a, b, c = listed(simulated).machines

    assert [(overview.job_count, overview.nodes) for overview in (a, b, c)] == [(1, 2), (1, 1), (0, 0)]
    assert [overview.requested.millicpus for overview in (a, b, c)] == [4000, 2000, 0]


async def test_a_user_sees_own_jobs_only_and_all_that_is_requested(simulated):
    await on(simulated, machine("a"))
    await simulated.start(LASTING, queue="wide", millicpus=2000)
    simulated.caller = STRANGER
    own = await simulated.start(LASTING, queue="wide", millicpus=1000)

    (seen,) = listed(simulated, caller=STRANGER).machines
    (whole,) = listed(simulated).machines

    assert ([job.id for job in seen.jobs], seen.job_count, whole.job_count) == ([own], 1, 2)
    assert seen.requested == whole.requested == Resources(millicpus=3000, memory_mib=seen.requested.memory_mib)


async def test_a_list_of_an_environment_has_its_machines_and_those_of_all(simulated):
    await known(simulated, machine("a", environment="other"), machine("b", environment="wide"), machine("c"))

    page = listed(simulated, environment="wide")

    assert [name for name, _ in names(page)] == ["b", "c"]
    assert page.counts == {MachineState.READY: 2}


async def test_pages_have_each_machine_once_and_the_first_jobs_of_each(simulated):
    await known(simulated, machine("c"), machine("b", is_cordoned=True), machine("a"))
    jobs = [await simulated.start(LASTING, queue="wide", millicpus=1000) for _ in range(3)]

    pages = [listed(simulated, limit=2, max_jobs=2)]
    pages.append(listed(simulated, limit=2, after=pages[0].next))

    assert [[other_machine.machine.name for other_machine in page.machines] for page in pages] == [["b", "a"], ["c"]]
    assert pages[1].next is None
    first = pages[0].machines[1]
    assert ([job.id for job in first.jobs], first.job_count) == (jobs[:2], 3)


@pytest.mark.parametrize("position", ["", "a", "9 a", "-1 a"])
async def test_a_position_that_no_page_has_given_is_refused(simulated, position):
    await simulated.sleep(30)
    with pytest.raises(Invalid, match="position"):
        listed(simulated, limit=1, after=position)


async def test_metrics_count_machines_by_state_and_have_the_room_of_each(simulated):
    await on(simulated, machine("a", gpus=2), machine("b"), machine("c", is_cordoned=True))
    await simulated.start(LASTING, queue="wide", millicpus=3000, gpus=1)

    values = {(reading.gauge, *reading.labels): reading.value for reading in machine_readings(simulated.engine)}

    assert {labels[1]: count for labels, count in values.items() if labels[0] == "batchq_machines"} == {
        "READY": 2,
        "CORDONED": 1,
        "AWAY": 0,
    }
    vcpus = [values["batchq_machine_vcpus", name, "reserved"] for name in ("a", "b", "c")]
    assert (vcpus, values["batchq_machine_vcpus", "a", "limit"]) == ([3, 0, 0], 4)
    assert values["batchq_machine_memory_bytes", "b", "limit"] == 4096 * 2**20
    assert values["batchq_machine_gpus", "a", "reserved"] == 1
    assert ("batchq_machine_gpus", "b", "limit") not in values
