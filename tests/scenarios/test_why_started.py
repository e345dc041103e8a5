"""The explanations of placed and finished jobs: a scenario for each row of the table from STARTING on."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import TimeLimit
from batchq.domain.container import Overrides
from batchq.domain.enums import Action, Status
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job import ExitRule
from batchq.domain.status_reasons import UNREADABLE
from batchq.errors import ImageUnavailable, StartRefused
from tests.support.builders import ADMIN, task
from tests.support.scripts import FOR_EVER, LASTING, Script, contained, lasting
from tests.support.world import check

IGNORES_SIGTERM = Script(seconds=600, on_term=None, output=("ready",))
READY = lasting(output=("ready",))
REFUSED = StartRefused("CannotStartContainerError: device busy", certain=False)
BROKEN = StartRefused("CannotStartContainerError: no cgroups", exit_code=127, certain=False, host_failed=True)
ABSENT = "127.0.0.1:1/none:latest"
GRACE = timedelta(minutes=9)
PAIR = task(
    contained("app", Script(seconds=0, exit_code=3), memory_mib=64), contained("helper", LASTING, essential=False)
)
UNREPORTED = (
    "Ended with exit code 137 (ended by SIGKILL). batchq did not kill it. Likely cause: its memory limit of 32 MiB, "
    "which the container engine does not always report."
)


# ------------------------------------------------------------------------------------------------------------- STARTING


async def test_a_job_shows_which_image_it_pulls(world):
    if world.virtual:
        world.machine.engine.missing_images[ABSENT] = "connection refused"
    world.runtime.hold("pull")
    jobs = [await world.submit(image=ABSENT) for _ in range(2)]
    for job in jobs:
        await world.wait_for_why(job, "PULLING_IMAGE")

    why = await world.wait_for_why(
        jobs[0], "PULLING_IMAGE", f"Has been pulling image {ABSENT} for *s. 2 jobs wait for the same image."
    )

    assert why.facts == {"image": ABSENT, "jobsWaiting": 2}


async def test_the_next_attempt_waits_for_the_removal_of_the_container_of_the_last(world):
    world.runtime.hold("remove")
    job = await world.submit(Script(seconds=0, exit_code=1), attempts=2)

    await world.wait_for_why(job, "CLEANING_UP", "Waits until the container of the previous attempt is removed.")


async def test_while_the_host_starts_no_containers_only_operators_read_its_error(world):
    world.runtime.errors["start"] = BROKEN
    job = await world.submit(Script(seconds=0))

    sentence = "The host has failed to start containers for *: the start is repeated until it works."
    await world.wait_for_why(job, "HOST_FAILURE", f"{sentence} Error: CannotStartContainerError: no cgroups.")
    owner = await world.wait_for_why(job, "HOST_FAILURE", sentence, caller=Caller(user=ADMIN.user))
    assert owner.facts == {"computeEnvironment": "local"}


async def test_a_start_that_the_engine_refused_is_tried_again(world):
    world.runtime.refusals["start"] = [REFUSED]
    job = await world.submit(Script(seconds=0))

    await world.wait_for_why(
        job,
        "START_REFUSED",
        "The container engine refused the start (1 time); it is tried again: CannotStartContainerError: device busy.",
        refusals=1,
    )


async def test_a_container_is_being_created_and_started(world):
    job = await world.submit_until("start", Script(seconds=0))

    await world.wait_for_why(job, "CREATING_CONTAINER", "Its container has been starting in local for *s.")
    await world.cancel(job, "too hot")
    await world.wait_for_why(
        job,
        "CREATING_CONTAINER",
        'Its container has been starting in local for *s. Cancelled by tester * ago, "too hot": it is not retried.',
    )


async def test_several_containers_are_starting_or_wait_for_others(world):
    world.runtime.hold("start")
    containers = (
        contained("first", Script(seconds=0)),
        contained("app", Script(seconds=0), after={"first": "SUCCESS"}),
    )
    job = await world.submit(task=task(*containers))
    await world.wait_for_call(job, "start", container_key="0/first")

    await world.wait_for_why(
        job,
        "STARTING_CONTAINERS",
        "2 containers in local, placed *s ago: 1 starting, 1 waits for others.",
        containers=2,
        starting=1,
        waiting=1,
    )


async def test_the_start_of_a_terminated_job_is_abandoned(world):
    job = await world.submit_until("create", LASTING)

    await world.terminate(job, "too hot")

    await world.wait_for_why(
        job, "ABANDONING_START", 'Terminated by tester * ago, "too hot": its start is being abandoned.'
    )


# -------------------------------------------------------------------------------------------------------------- RUNNING


async def test_a_running_job_shows_how_long_it_has_run_and_when_its_limit_ends_it(world):
    job = await world.start(limit=3600)
    await world.sleep(1)

    await world.wait_for_why(
        job,
        "RUNNING",
        "Has run for * s in local. Its time limit ends it in 59 min.",
        computeEnvironment="local",
        attempt=1,
    )


async def test_while_the_engine_is_away_the_end_of_a_running_job_is_not_seen(world):
    job = await world.start()
    world.runtime.unreachable = True
    await world.wait_for_engine(up=False)

    await world.wait_for_why(
        job,
        "RUNNING",
        "Has run for * s in local. "
        "The container engine has not answered for *: an end of the job is seen when it does.",
    )


async def test_a_running_job_that_was_cancelled_will_not_be_retried(world):
    job = await world.start(lasting(1), attempts=3)

    await world.cancel(job, "too hot")

    await world.wait_for_why(
        job, "NO_RETRY", 'Has run for * s in local, and will not be retried. Cancelled by tester * ago, "too hot".'
    )


async def test_a_terminated_job_shows_what_was_sent_and_when_it_is_killed(world):
    job = await world.start(IGNORES_SIGTERM, grace=GRACE)
    world.runtime.hold("stop")

    await world.terminate(job, "too hot")

    sentence = 'Terminated by tester 0 s ago, "too hot": the stop signal is being sent.'
    await world.wait_for_why(job, "STOPPING", sentence)
    world.runtime.release("stop")
    await world.wait_for_signal(job)
    await world.wait_for_why(
        job,
        "STOPPING",
        'Terminated by tester * ago, "too hot": the stop signal was sent * ago, SIGKILL follows in * min.',
    )


async def test_a_job_that_is_pausing_shows_who_paused_it_and_when_it_is_killed(world):
    job = await world.start(IGNORES_SIGTERM, grace=GRACE)

    await world.pause(job, "others first")
    await world.wait_for_signal(job)

    await world.wait_for_why(
        job,
        "STOPPING",
        'Paused by tester * ago, "others first": the stop signal was sent * ago, SIGKILL follows in * min.',
    )


async def test_a_job_that_is_to_write_a_final_checkpoint_shows_what_follows(world):
    tags = {"batchq:checkpoints": "true", "batchq:checkpoint-signal": "USR1"}
    job = await world.start(replace(IGNORES_SIGTERM, request_delay=FOR_EVER, on_request="final"), tags=tags)

    await world.terminate(job, "too hot", checkpoint=True)
    await world.wait_for_signal(job)

    why = await world.wait_for_why(
        job,
        "STOPPING",
        'Terminated by tester * ago, "too hot": SIGUSR1 for a final checkpoint was sent * ago, '
        "the stop signal follows in * s.",
    )
    assert {"checkpointRequestedAt", "nextStepAt"} <= why.facts.keys()


async def test_a_job_past_its_time_limit_is_being_stopped(world):
    job = await world.submit(IGNORES_SIGTERM, limit=1, grace=GRACE)

    await world.wait_for_why(job, "TIME_LIMIT", "Its time limit of 1 s has passed: *", timeLimitSeconds=1.0)
    await world.wait_for_signal(job)
    await world.wait_for_why(
        job,
        "TIME_LIMIT",
        "Its time limit of 1 s has passed: the stop signal was sent * ago, SIGKILL follows in * min.",
    )


async def test_a_container_that_does_not_exit_although_it_was_killed(world):
    job = await world.start(IGNORES_SIGTERM, name="hung")
    world.runtime.hold("kill")
    await world.terminate(job, "too hot")
    await world.wait_for_call(job, "kill")
    if world.virtual:
        await world.sleep(70)
    else:  # a minute later
        world.server.explanations._engine = _Later(world.engine, timedelta(seconds=70))

    await world.wait_for_why(
        job,
        "NOT_EXITING",
        'Terminated by tester * ago, "too hot". Its container has not exited although SIGKILL was sent * s ago. '
        "Last resort of an administrator: `batchq force-fail`.",
    )
    waiting = await world.submit(LASTING, millicpus=4000)
    await world.wait_for_why(
        waiting,
        "WAITS_FOR_VCPUS",
        "First in queue default: requires 4 vCPUs, 3.75 of 4 are free in local. In use by hung.",
    )


class _Later:
    """The engine, whose state is read as if it were later."""

    def __init__(self, engine, by):
        self._engine, self._by = engine, by
        self.queue_heads = engine.queue_heads

    def scheduler_state(self):
        state = self._engine.scheduler_state()
        state.holders._now += self._by
        return replace(state, now=state.now + self._by)


# --------------------------------------------------------------------------------------------------------------- FAILED


def exits(exit_code):
    return Script(seconds=0, exit_code=exit_code)


#: What is submitted; the code, the sentence, and facts of its explanation.
ENDS = {
    "an exit code": (
        {"script": exits(2)},
        ("EXIT_CODE", "Ended with exit code 2."),
        {"exitCode": 2, "attempt": 1, "attempts": 1},
    ),
    "command not found": (
        {"script": exits(127)},
        ("EXIT_CODE", "Ended with exit code 127 (command not found)."),
        {},
    ),
    "ended by SIGTERM": ({"script": exits(143)}, ("EXIT_CODE", "Ended with exit code 143 (ended by SIGTERM)."), {}),
    "killed by another program": ({"script": exits(137)}, ("EXIT_CODE", UNREPORTED), {}),
    "no attempt left": (
        {"script": exits(1), "attempts": 2},
        ("EXIT_CODE", "Ended with exit code 1. Attempt 2 of 2."),
        {},
    ),
    "ended by a rule": (
        {"script": exits(2), "attempts": 3, "rules": (ExitRule(action=Action.EXIT, on_exit_code="2"),)},
        (
            "EXIT_CODE",
            "Ended with exit code 2. Attempt 1 of 3. No further attempt: a rule of evaluateOnExit ended the job.",
        ),
        {},
    ),
    "time limit": (
        {"script": Script(seconds=600, on_term=1), "limit": 1},
        ("TIMED_OUT", "Stopped by its time limit of 1 s."),
        {},
    ),
    "not started": (
        {"script": Script(refuse="no such file")},
        ("NOT_STARTED", "Its container could not be started: *"),
        {},
    ),
    "the container that decided": ({"task": PAIR}, ("EXIT_CODE", "Ended with exit code 3."), {"container": "app"}),
    "success": (
        {"script": Script(seconds=1), "attempts": 2},
        ("SUCCEEDED", "Succeeded after * s. Attempt 1 of 2."),
        {},
    ),
}


@pytest.mark.parametrize(("submission", "expected", "facts"), ENDS.values(), ids=ENDS)
async def test_the_end_of_a_job_is_explained(world, submission, expected, facts):
    job = await world.submit(**submission)

    await world.wait_for_why(job, *expected, **facts)


async def test_a_lack_of_memory_is_explained(world):
    job = await world.run(Script(seconds=0, exit_code=137, out_of_memory=True), Status.FAILED)
    why = await world.why(job)

    if not world.virtual and why.code == "EXIT_CODE":  # Docker loses about one report of 50 (decision 0055)
        check(why, "EXIT_CODE", UNREPORTED)
        return
    peak = " The last sample showed a peak of * MiB." if "peakMemoryBytes" in why.facts else ""  # on Docker, by chance
    check(why, "OUT_OF_MEMORY", f"Killed because it exceeded its 32 MiB of memory. Request more.{peak}")
    assert why.facts["memoryMiB"] == 32


async def test_the_kill_of_a_terminated_job_is_not_explained_by_its_memory(world):
    job = await world.start(IGNORES_SIGTERM)
    await world.terminate(job, "too hot")

    await world.wait_for_why(
        job,
        "TERMINATED",
        'Terminated by tester * ago, "too hot". Its last attempt ended with exit code 137 (ended by SIGKILL).',
    )


async def test_an_image_that_cannot_be_pulled_is_named(world):
    world.runtime.refusals["create"] = [ImageUnavailable("CannotPullContainerError: no such image")]

    job = await world.submit(image=ABSENT)

    sentence = f"Image {ABSENT} could not be pulled: CannotPullContainerError: *."
    await world.wait_for_why(job, "IMAGE_UNAVAILABLE", sentence, image=ABSENT)


async def test_what_an_account_does_not_permit_is_explained(world):
    world.runtime.refusals["create"] = [
        StartRefused("CannotCreateContainerError: Image x is not allowed to account lab.", forbidden=True)
    ]

    job = await world.submit(attempts=3)

    await world.wait_for_why(
        job,
        "FORBIDDEN",
        "Not permitted: CannotCreateContainerError: Image x is not allowed to account lab. Attempt 1 of 3. "
        "No further attempt: a refusal is not retried.",
    )


async def test_a_failed_dependency_is_named_with_its_own_reason(world):
    first = await world.submit(Script(seconds=0, exit_code=2), name="align-1")

    job = await world.submit(after=[first])

    dependency = {"jobId": first, "jobName": "align-1", "code": "EXIT_CODE"}
    sentence = "Its dependency align-1 failed: Ended with exit code 2."
    await world.wait_for_why(job, "DEPENDENCY_FAILED", sentence, dependency=dependency)


async def test_a_failed_dependency_of_another_user_is_not_named(world):
    first = await world.submit(Script(seconds=0, exit_code=2), name="secret")
    job = await world.run(Script(), Status.FAILED, after=[first], name="mine")
    mine = replace(await world.job(job), spec=replace((await world.job(job)).spec, owner=BOB.owner))

    why = (await world.server.explanations.explain((mine,), caller=BOB))[job]

    check(why, "DEPENDENCY_FAILED", "Its dependency (a job of another user) failed.")
    assert why.facts == {}


BOB = Caller(user="bob", account="lab", lineage=("lab", "root"))


async def test_a_failed_array_names_a_failed_child(world):
    array = await world.run(
        Script(seconds=0), Status.FAILED, array_size=3, children={1: Script(seconds=0, exit_code=2)}
    )

    await world.wait_for_why(
        array,
        "CHILD_FAILED",
        "1 of 3 children failed. The last one is index 1: Ended with exit code 2.",
        child={"jobId": child_id(array, 1), "index": 1, "code": "EXIT_CODE"},
    )


async def test_a_lost_host_is_explained(world):
    job = await world.start()
    stored = await world.job(job)
    lost = replace(stored.attempt, status_reason=status_reasons.HOST_TERMINATED)
    over = replace(stored, status=Status.FAILED, attempt=None, attempts=(lost,), status_reason=lost.status_reason)

    why = (await world.server.explanations.explain((over,), caller=ADMIN))[job]

    check(why, "HOST_LOST", "The host, or its container engine, went down while the job ran.")


async def test_a_container_that_disappeared_is_explained(world):
    job = await world.start()
    world.runtime.drops_death_reports = True
    await world.machine.remove((await world.job(job)).tag)

    await world.wait_for(job, Status.FAILED)

    await world.wait_for_why(job, "CONTAINER_LOST", "Its container disappeared: another program removed it.")


async def test_a_cancelled_job_shows_the_reason_of_the_cancel(world):
    queued = await world.submit(LASTING, after=[await world.submit(LASTING)])
    runs = await world.start(lasting(1), attempts=2)

    await world.cancel(queued, "too hot")
    await world.cancel(runs, "too hot")
    await world.finish(runs)

    await world.wait_for_why(queued, "CANCELLED", 'Cancelled by tester * ago, "too hot".')
    await world.wait_for_why(
        runs, "CANCELLED", 'Cancelled by tester * ago, "too hot". Its last attempt ended with exit code 1.'
    )


async def test_a_reason_that_only_repeats_who_cancelled_is_left_out(world):
    job = await world.submit(LASTING, after=[await world.submit(LASTING)])

    await world.cancel(job, "Cancelled by tester")

    await world.wait_for_why(job, "CANCELLED", "Cancelled by tester * ago.")


async def test_a_terminated_job_shows_the_reason_of_the_order(world):
    job = await world.start(READY)

    await world.terminate(job, "too hot")

    await world.wait_for_why(
        job, "TERMINATED", 'Terminated by tester * ago, "too hot". Its last attempt ended with exit code 0.'
    )


async def test_a_job_that_was_blocked_for_too_long_shows_what_blocked_it(world):
    reason = status_reasons.code(status_reasons.no_room(""))
    limits = (TimeLimit(reason=reason, most=timedelta(seconds=1)),)
    await world.catalog.job_queues.update(
        QueueName("default"), lambda value: replace(value, time_limits=limits), caller=ADMIN
    )
    await world.start(millicpus=4000)

    job = await world.submit(millicpus=4000)

    sentence = f"Cancelled because it was blocked longer than queue default allows: {reason}."
    await world.wait_for_why(job, "BLOCKED_TOO_LONG", sentence)


async def test_a_force_failed_job_shows_the_reason(world):
    job = await world.start(IGNORES_SIGTERM)
    world.runtime.hold("kill")
    world.runtime.hold("remove")
    await world.terminate(job, "stop it")
    await world.wait_for_call(job, "kill")

    await world.force_fail(job, "the disk is gone")

    await world.wait_for_why(job, "FORCE_FAILED", 'Force-failed by tester * ago, "the disk is gone".')


async def test_an_invalid_submission_is_explained(world):
    submission = replace(await world.submission(), overrides=Overrides(environment=(("TEXT", "x" * 9000),)))

    job = (await world.submissions.submit(submission, caller=ADMIN)).id

    sentence = "Not valid: Container Overrides length must be at most 8192."
    await world.wait_for_why(job, "INVALID", sentence)


async def test_a_record_that_was_damaged_is_explained(world):
    job = await world.start()
    damaged = replace(await world.job(job), status_reason=UNREADABLE)

    why = (await world.server.explanations.explain((damaged,), caller=ADMIN))[job]

    check(why, "UNREADABLE", "Its record in the database was damaged and could not be read: it cannot continue.")
