"""A paused container is resumed by a stop. Docker does this itself, other engines do not."""

import pytest

from batchq.compute.docker.containers import Containers
from batchq.compute.docker.create_request import container_labels
from batchq.compute.docker.network.placement import NetworkPlacement
from batchq.compute.docker.policy import STRICT_POLICY
from batchq.compute.docker.secrets import NO_SECRETS
from batchq.domain.catalog import Network
from tests.support.containers import new_tag

TAG = new_tag()


class Engine:
    """It has one container that runs, and remembers what it was asked to do with it."""

    def __init__(self, *, paused):
        self._state = {"Status": "running", "StartedAt": "2026-11-21T12:00:00Z", "Paused": paused}
        self.asked = []

    def inspect_container(self, _):
        return {"Id": "1", "State": self._state, "Config": {"Labels": container_labels("i", TAG)}}

    def kill(self, _, signal):
        self.asked.append(signal)

    def unpause(self, _):
        self.asked.append("unpause")


@pytest.mark.parametrize(("paused", "asked"), [(True, ["SIGTERM", "unpause"]), (False, ["SIGTERM"])])
def test_a_paused_container_is_resumed_by_a_stop(paused, asked):
    engine = Engine(paused=paused)
    containers = Containers(
        instance="i",
        policy=STRICT_POLICY,
        secrets=NO_SECRETS,
        placement=NetworkPlacement("i", Network.BRIDGE),
        lost_before=lambda: None,
        shares_files=lambda: True,
    )

    containers.signal_stop(engine, TAG, None)

    assert engine.asked == asked
