"""The calls about containers on a fake client: GPUs, paused containers, and a lost host."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from batchq.compute.docker import host
from batchq.compute.docker.create_request import container_labels
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import LaunchSpec
from tests.support import builders
from tests.support.containers import containers_of, new_tag

TAG = new_tag()
BEGAN = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Engine:
    """An engine with one container in this state, and the calls that changed it."""

    def __init__(self, **state):
        self._inspected = {
            "Id": "1",
            "State": {"StartedAt": BEGAN.isoformat()} | state,
            "Config": {"Labels": container_labels("i", TAG)},
        }
        self.calls = []

    def inspect_container(self, _):
        return self._inspected

    def kill(self, _, signal):
        self.calls.append(signal)

    def unpause(self, _):
        self.calls.append("unpause")


@pytest.mark.parametrize(("paused", "calls"), [(True, ["SIGTERM", "unpause"]), (False, ["SIGTERM"])])
def test_a_paused_container_is_resumed_by_a_stop(paused, calls):
    """Docker itself resumes it; other engines do not."""
    engine = Engine(Status="running", Paused=paused)

    containers_of("i").signal_stop(engine, TAG, None)

    assert engine.calls == calls


@pytest.mark.parametrize(("lost_before", "lost"), [(BEGAN + MINUTE, True), (BEGAN - MINUTE, False)])
def test_an_inspection_reports_a_lost_host(lost_before, lost):
    engine = Engine(Status="exited", ExitCode=1, FinishedAt=(BEGAN + MINUTE).isoformat())

    assert containers_of("i", lost_before=lambda _: lost_before).inspect(engine, TAG).host_lost is lost


def holder(*ids, state="running"):
    return {"Id": "it", "State": state, "Labels": {"io.batchq.gpus": ",".join(ids)}}


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ([], ("0", "1")),
        ([holder("0")], ("1", "2")),
        ([holder("1", "2")], ("0", "3")),
        ([holder("0", state="created"), holder("2", state="paused")], ("1", "3")),
        ([holder("0", state="of a new name")], ("1", "2")),
        ([holder("0", state="exited"), holder("1", state="dead"), holder("2", state="removing")], ("0", "1")),
    ],
)
def test_free_gpus_are_chosen_first(rows, chosen):
    assert host.choose_gpus(2, of=4, usage=host.gpu_usage(rows)) == chosen


def test_with_too_few_free_gpus_the_least_used_are_shared():
    held = host.gpu_usage([holder("0", "1"), holder("0", "2")])

    assert host.choose_gpus(3, of=4, usage=held) == ("1", "2", "3")


def test_more_gpus_than_exist_are_passed_to_the_engine():
    assert host.choose_gpus(2, of=1, usage={}) == ("0", "1")


@pytest.mark.parametrize("rows", [None, {}])
def test_an_invalid_list_of_containers_is_an_unknown_outcome(rows):
    with pytest.raises(RuntimeUnknown):
        host.gpu_usage(rows)


class CreatingEngine:
    """The calls of the engine that create containers, and its list of them."""

    def __init__(self):
        self.rows = []
        self.creating = False

    def containers(self, *, all, filters):  # noqa: A002 - the SDK's word
        assert (all, filters) == (True, {"label": "io.batchq.gpus"})
        assert not self.creating, "a list was requested during another choice"
        return list(self.rows)

    def create_container_from_config(self, config, *, name, platform):
        self.creating = True
        Event().wait(0.01)  # as long as an engine needs, so that other threads run
        assert platform == "linux/arm64"
        given = config["HostConfig"]["DeviceRequests"][0]["DeviceIDs"]
        assert config["Labels"]["io.batchq.gpus"] == ",".join(given)
        self.rows.append({"Id": name, "State": "created", "Labels": config["Labels"]})
        self.creating = False
        return {"Id": name}


def test_containers_created_at_once_get_different_gpus(monkeypatch):
    monkeypatch.setattr(host, "gpu_count", lambda: 8)
    engine, containers = CreatingEngine(), containers_of("i")
    spec = builders.container(gpus=1, platform="linux/arm64")
    launches = [LaunchSpec(tag=new_tag(), spec=spec, environment=()) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda launch: containers.create(engine, launch), launches))

    assert host.gpu_usage(engine.rows) == {str(number): 1 for number in range(8)}
