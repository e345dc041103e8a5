"""What a job leaves behind: the containers of all its attempts, whatever became of them."""

from batchq.domain.job import AttemptContainer, Status, tags
from tests.support.builders import attempt, job


def test_each_attempt_that_ended_leaves_one():
    done = job(status=Status.FAILED, attempts=(attempt(number=1), attempt(number=2)))

    assert [str(it) for it in tags(done)] == [f"{done.id}/1", f"{done.id}/2"]


def test_one_of_several_containers_leaves_each_of_them():
    parts = (AttemptContainer(key="0/app"), AttemptContainer(key="1/app"))
    done = job(status=Status.FAILED, attempts=(attempt(number=1), attempt(number=2, containers=parts)))

    assert [str(it) for it in tags(done)] == [f"{done.id}/1", f"{done.id}/2/0/app", f"{done.id}/2/1/app"]


def test_the_attempt_under_way_counts():
    running = job(status=Status.RUNNING, attempts=(attempt(number=1),))

    assert tags(running)[-1] == running.tag


def test_a_job_that_never_ran_leaves_nothing():
    assert tags(job(status=Status.FAILED)) == ()
