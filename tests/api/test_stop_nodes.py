"""CancelJob and TerminateJob of one node of a gang. The scenarios test what happens to it."""

import pytest

from batchq.domain import events as on
from tests.api.conftest import ARN
from tests.api.several import GANG
from tests.support.builders import ADMIN

EVENTS = {"CancelJob": on.CancelRequested, "TerminateJob": on.TerminateRequested}


@pytest.fixture
async def gang(submit, boto):
    await boto.register_job_definition(**GANG)
    return await submit(jobDefinition="gang")


@pytest.mark.parametrize("operation", EVENTS)
@pytest.mark.parametrize("name", ["{}#3", ARN + "job/{}#3"])
async def test_the_engine_gets_the_node(server, gang, http, operation, name):
    status, _, answer = await http.post(operation, {"jobId": name.format(gang), "reason": "no"})

    assert (status, answer) == (200, {})
    assert server.engine.received == [(gang, EVENTS[operation](reason="no", user=ADMIN.user, node=3))]


@pytest.mark.parametrize("operation", EVENTS)
async def test_the_engine_gets_the_job_without_a_node(server, gang, http, operation):
    await http.post(operation, {"jobId": gang, "reason": "no"})

    assert server.engine.received == [(gang, EVENTS[operation](reason="no", user=ADMIN.user))]


@pytest.mark.parametrize("operation", EVENTS)
@pytest.mark.parametrize("node", ["4", "03", "99999"])
async def test_an_unknown_node_is_not_an_error_and_changes_nothing(server, gang, http, operation, node):
    status, _, answer = await http.post(operation, {"jobId": f"{gang}#{node}", "reason": "no"})

    assert (status, answer, server.engine.received) == (200, {}, [])


@pytest.mark.parametrize("operation", EVENTS)
async def test_a_single_job_has_no_nodes_to_stop(server, submit, http, operation):
    status, _, answer = await http.post(operation, {"jobId": f"{await submit()}#0", "reason": "no"})

    assert (status, answer, server.engine.received) == (200, {}, [])
