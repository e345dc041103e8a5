"""A paused container is resumed by a stop. Docker does this itself, other engines do not."""

import pytest

from batchq.compute.docker.create_request import container_labels
from tests.support.containers import containers_of, new_tag

TAG = new_tag()


class Engine:
    """An engine with one running container, and the calls that changed it."""

    def __init__(self, *, paused):
        self._state = {"Status": "running", "StartedAt": "2026-11-21T12:00:00Z", "Paused": paused}
        self.calls = []

    def inspect_container(self, _):
        return {"Id": "1", "State": self._state, "Config": {"Labels": container_labels("i", TAG)}}

    def kill(self, _, signal):
        self.calls.append(signal)

    def unpause(self, _):
        self.calls.append("unpause")


@pytest.mark.parametrize(("paused", "calls"), [(True, ["SIGTERM", "unpause"]), (False, ["SIGTERM"])])
def test_a_paused_container_is_resumed_by_a_stop(paused, calls):
    engine = Engine(paused=paused)
    containers = containers_of("i")

    containers.signal_stop(engine, TAG, None)

    assert engine.calls == calls
