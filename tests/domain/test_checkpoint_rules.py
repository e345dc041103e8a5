"""The tags of a submission make the rules of its checkpoints."""

from datetime import timedelta

import pytest

from batchq.domain.container import Mount, Tmpfs
from batchq.domain.training import MOUNT_POINT, CheckpointRules, check_mounts, checkpoint_rules
from batchq.errors import Invalid
from tests.support.builders import container

DECLARED = ("batchq:checkpoints", "true")
SIGNAL, TIMEOUT = "batchq:checkpoint-signal", "batchq:checkpoint-timeout"


@pytest.mark.parametrize("tags", [(), (("other", "x"),), (("batchq:checkpoints", "false"),)])
def test_without_the_tag_a_job_has_no_checkpoints(tags):
    assert checkpoint_rules(tags) is None


def test_without_a_signal_the_stop_signal_is_the_request():
    assert checkpoint_rules((DECLARED,)) == CheckpointRules(signal=None, timeout=timedelta(seconds=120))


@pytest.mark.parametrize("signal", ["USR1", "SIGUSR1", "usr1"])
def test_a_signal_and_a_timeout_can_be_declared(signal):
    rules = checkpoint_rules((DECLARED, (SIGNAL, signal), (TIMEOUT, "3600")))

    assert rules == CheckpointRules(signal="USR1", timeout=timedelta(hours=1))


@pytest.mark.parametrize(
    "tags",
    [
        (("batchq:checkpoints", "yes"),),
        ((SIGNAL, "USR1"),),
        (("batchq:checkpoints", "false"), (TIMEOUT, "5")),
        *((DECLARED, (SIGNAL, text)) for text in ("KILL", "TERM", "", "10", "SIG")),
        *((DECLARED, (TIMEOUT, text)) for text in ("0", "3601", "1.5", "-1", "", "9" * 500, "٣")),
    ],
)
def test_tags_with_an_invalid_value_are_refused(tags):
    with pytest.raises(Invalid, match="batchq:checkpoint"):
        checkpoint_rules(tags)


@pytest.mark.parametrize(
    "spec",
    [
        container(mounts=(Mount(container_path=f"{MOUNT_POINT}/../checkpoints/", host_path="/srv"),)),
        container(tmpfs=(Tmpfs(container_path=MOUNT_POINT, size_mib=1),)),
    ],
)
def test_another_volume_at_the_mount_point_is_refused(spec):
    with pytest.raises(Invalid, match=MOUNT_POINT):
        check_mounts([container(), spec])
