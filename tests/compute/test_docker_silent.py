"""A container without output is removed with its log; one whose log was not read completely is kept."""

import json

import pytest

from batchq.compute.docker.create_request import container_labels, container_name
from batchq.compute.docker.operation_pools import Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.errors import ContainerGone, EngineUnknown
from tests.support.containers import new_tag
from tests.support.fake_engine import engine, responds

INSTANCE = "i"
LINE = b"2026-11-22T09:00:00.000000001Z hello\n"
FRAME = b"\x01\0\0\0" + len(LINE).to_bytes(4, "big") + LINE
SAYS_NOTHING, SAYS_HELLO = responds(200, b""), responds(200, FRAME)
CANNOT_BE_READ, GOING = responds(501, b"{}"), responds(409, b"{}")


def breaks_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.close_connection = True


def is_silent(handler):
    handler.connection.recv(1)  # until the client disconnects
    handler.close_connection = True


class Engine:
    """An engine with one container, which records its calls."""

    def __init__(self):
        self.tag = new_tag()
        self.log = SAYS_NOTHING
        self.look = responds(200, self.inspected())
        self.done = []

    def answer(self, handler):
        if handler.command == "DELETE":
            self.done.append("removed")
            responds(204, b"")(handler)
        elif "/logs" in handler.path:
            self.done.append("read")
            self.log(handler)
        else:
            self.look(handler)

    def inspected(self, driver="json-file"):
        labels, stored = container_labels(INSTANCE, self.tag), {"Type": driver, "Config": {"tag": "s3cret/option"}}
        inspection = {
            "Id": container_name(INSTANCE, self.tag),
            "Config": {"Labels": labels},
            "HostConfig": {"LogConfig": stored},
        }
        return json.dumps(inspection).encode()


@pytest.fixture
async def world(tmp_path):
    its = Engine()
    with engine(tmp_path, its.answer) as url:
        runtime = DockerRuntime(instance=INSTANCE, base_url=url)
        yield its, runtime
        await runtime.close()


@pytest.mark.parametrize("log", [SAYS_NOTHING, CANNOT_BE_READ])
async def test_a_container_without_output_is_removed(world, log):
    its, runtime = world
    its.log = log

    assert await runtime.remove_silent(its.tag) is None

    assert its.done == ["read", "removed"]


async def test_a_container_with_output_is_kept_and_its_log_read_once(world):
    its, runtime = world
    its.log = SAYS_HELLO

    written = await runtime.remove_silent(its.tag)

    assert [line.message async for line in written] == ["hello"]
    assert its.done == ["read"]


REFUSED = responds(500, b'{"message": "splunk: s3cret: 403, Authorization: Bearer of-the-target"}')


@pytest.mark.fault("SE30")
async def test_an_engine_that_refuses_a_log_is_reported_without_secrets(world):
    its, runtime = world
    its.log = REFUSED

    with pytest.raises(EngineUnknown, match=r"splunk: \*\*\*: 403, Authorization: \*\*\*") as refused:
        await runtime.remove_silent(its.tag)

    assert not any(it in str(refused.value) for it in ("s3cret", "of-the-target"))
    assert its.done == ["read"]


@pytest.mark.fault("SE30")
async def test_a_container_whose_log_driver_cannot_be_read_is_removed(world):
    its, runtime = world
    its.log, its.look = REFUSED, responds(200, its.inspected("splunk"))

    assert await runtime.remove_silent(its.tag) is None

    assert its.done == ["read", "removed"]


@pytest.mark.parametrize(("log", "error"), [(breaks_off, EngineUnknown), (GOING, ContainerGone)])
async def test_a_container_whose_log_cannot_be_read_is_kept(world, log, error):
    its, runtime = world
    its.log = log

    with pytest.raises(error):
        await runtime.remove_silent(its.tag)

    assert its.done == ["read"]


@pytest.mark.fault("SP24")
async def test_an_unanswered_log_request_releases_its_thread_soon(tmp_path):
    its = Engine()
    well, its.look, its.log = its.look, is_silent, is_silent
    with engine(tmp_path, its.answer) as url:
        runtime = DockerRuntime(
            instance=INSTANCE, base_url=url, limits=Limits(receive_timeout=600, container_timeout=0.2)
        )
        with pytest.raises(EngineUnknown):
            await runtime.inspect(its.tag)
        its.look = well

        with pytest.raises(EngineUnknown):  # within the time that a test has
            await runtime.remove_silent(its.tag)

        assert its.done == ["read"]
        await runtime.close()
