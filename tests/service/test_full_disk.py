"""A real server on a nearly full disk."""

import pytest
from botocore.exceptions import ClientError

from batchq.errors import StoreFailed
from batchq.system.host import DiskGuard, free_disk
from tests.service.waiting import container
from tests.support.service import serving_forked

MORE_THAN_THERE_IS = str(2**30)  # MiB


def test_on_a_nearly_full_disk_health_is_degraded_and_jobs_are_refused(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated", "--min-free-mib", MORE_THAN_THERE_IS) as service:
        batch = service.client()

        with pytest.raises(ClientError, match="MiB of free space"):
            batch.register_job_definition(
                jobDefinitionName="hello", type="container", containerProperties=container("true")
            )

        assert service.health()["status"] == "degraded"
        assert "jobs and job definitions are rejected" in service.health()["disk"]
        assert batch.describe_job_queues()["jobQueues"][0]["jobQueueName"] == "default"


def test_with_enough_space_the_disk_is_healthy(shared):
    assert shared.health()["disk"] == "ok"


def test_the_free_space_is_that_of_the_disk(tmp_path):
    assert free_disk(tmp_path) > 0


def test_a_disk_without_an_answer_is_a_failing_store(tmp_path):
    disk_guard = DiskGuard(free=lambda: free_disk(tmp_path / "gone"), min_free=1)

    with pytest.raises(StoreFailed, match=r"free space of .* is unknown"):
        disk_guard.check()
    assert "is unknown" in disk_guard.problem
