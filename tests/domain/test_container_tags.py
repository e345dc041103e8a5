"""The tags of the containers of all attempts of a job."""

from batchq.domain.attempt_tags import tags
from batchq.domain.job import AttemptContainer, Status
from tests.support.builders import attempt, job


def test_each_ended_attempt_has_a_tag():
    done = job(status=Status.FAILED, attempts=(attempt(number=1), attempt(number=2)))

    assert [str(it) for it in tags(done)] == [f"{done.id}/1", f"{done.id}/2"]


def test_an_attempt_with_several_containers_has_a_tag_for_each():
    parts = (AttemptContainer(key="0/app"), AttemptContainer(key="1/app"))
    done = job(status=Status.FAILED, attempts=(attempt(number=1), attempt(number=2, containers=parts)))

    assert [str(it) for it in tags(done)] == [f"{done.id}/1", f"{done.id}/2/0/app", f"{done.id}/2/1/app"]


def test_the_attempt_under_way_has_a_tag():
    running = job(status=Status.RUNNING, attempts=(attempt(number=1),))

    assert tags(running)[-1] == running.tag


def test_a_job_without_attempts_has_no_tag():
    assert tags(job(status=Status.FAILED)) == ()
