"""Why a job waits: a scenario for each row of the table of explanations that applies before the first attempt."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.access.accounts import Account, AccountLimits, Caller, ContainerPolicy, User
from batchq.domain.catalog import EnvironmentName, QuantityOperation
from batchq.domain.container import Resources
from batchq.domain.enums import DependencyType, State, Status
from batchq.domain.ids import ConsumableName, QueueName, child_id
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Dependency
from batchq.domain.machines import one_machine
from batchq.errors import NotFound
from batchq.ports.jobs import Changes, Restoration
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.scripts import LASTING, Script, lasting
from tests.support.world import HOST, check

WHOLE = 4000  # all vCPUs of the environment, in thousandths
LICENCES = ConsumableName("licences")
LOCAL = EnvironmentName("local")
#: A job that holds all vCPUs of the environment while it runs.
FILLER = {"name": "filler", "millicpus": WHOLE}
IGNORES_SIGTERM = Script(seconds=600, on_term=None, output=("ready",))


@pytest.fixture
async def licences(world):
    await world.catalog.consumable_resources.create(builders.consumable(LICENCES, total=2), caller=ADMIN)


# ------------------------------------------------------------------------------------------------------------- held


@pytest.mark.parametrize(
    ("paused", "code", "sentence"),
    [
        (False, "HELD", 'Held by tester * ago, "others first": it does not start until it is released.'),
        (True, "PAUSED", 'Paused by tester * ago, "others first": it does not start until it is resumed.'),
    ],
    ids=["held", "paused"],
)
async def test_a_held_or_paused_job_names_the_user_and_the_reason(world, paused, code, sentence):
    job = await world.submit_held("others first", paused=paused)

    await world.wait_for_why(job, code, sentence)


async def test_a_job_of_a_drained_queue_names_the_queue(world):
    await world.catalog.drain_queue(QueueName("default"), drained=True, caller=ADMIN)
    job = await world.submit()
    await world.wait_for(job, Status.RUNNABLE)

    sentence = "Queue default is drained: none of its jobs starts until an operator ends the drain."
    await world.wait_for_why(job, "QUEUE_DRAINED", sentence)


# ------------------------------------------------------------------------------------------------ SUBMITTED and PENDING


async def test_a_submitted_job_is_handled_next(world):
    job = await world.submit(LASTING, millicpus=1, after=[await world.submit(LASTING, millicpus=1)])
    await world.wait_for(job, Status.PENDING)
    stored = await world.job(job)
    known = await world.store.jobs([job.job_id for job in stored.spec.depends_on])
    ended = {key: replace(other, status=Status.SUCCEEDED) for key, other in known.items()}

    # The next unit of work follows at once, so the moment between is made by hand.
    world.store.jobs = _answering(world.store.store.jobs, ended)
    why = await world.why(job)
    del world.store.jobs

    check(why, "SUBMITTED", "Submitted * ago; the scheduler handles it next.")


def _answering(read, instead):
    """The store's `jobs`, with these jobs in place of the stored ones."""

    async def jobs(ids, **of):
        found = await read(ids, **of)
        return {key: instead.get(key, job) for key, job in found.items()}

    return jobs


async def test_dependencies_that_have_not_succeeded_are_listed(world):
    done = await world.run(name="prepare")
    runs = await world.start(name="align-1")
    job = await world.submit(LASTING, after=[done, runs])

    await world.wait_for_why(
        job,
        "DEPENDENCIES",
        "Waits for 1 of 2 dependencies: align-1 (RUNNING for *).",
        dependencies=({"jobId": runs, "jobName": "align-1", "status": "RUNNING"},),
    )


async def test_the_child_of_a_sequential_array_waits_for_the_child_before_it(world):
    array = await world.submit(
        LASTING, name="steps", array_size=3, after=[Dependency(job_id=None, type=DependencyType.SEQUENTIAL)]
    )
    await world.wait_for(child_id(array, 0), Status.RUNNING)
    await world.wait_for(child_id(array, 2), Status.PENDING)

    await world.wait_for_why(
        child_id(array, 1), "DEPENDENCIES", "Waits for 1 of 1 dependency: steps:0 (RUNNING for *)."
    )


async def test_a_child_that_its_array_has_not_created_waits_in_the_array(world):
    first = await world.start(name="prepare")
    array = await world.submit(LASTING, name="align", array_size=9, after=[first])
    await world.wait_for(array, Status.PENDING)

    why = await world.wait_for_why(
        child_id(array, 7),
        "NOT_CREATED",
        "Not created yet: its array creates 9 children in order, and 7 others before it. "
        "The array: Waits for 1 of 1 dependency: prepare (RUNNING for *).",
    )

    assert why.facts["array"]["jobId"] == array
    assert why.facts["array"]["facts"]["pending"] == 1
    with pytest.raises(NotFound):
        await world.why(child_id(array, 9))
    await world.cancel(child_id(array, 7), "not this one")
    assert (await world.why(child_id(array, 7))).code == "CANCELLED"


async def test_an_array_counts_its_children(world):
    array = await world.submit(
        Script(seconds=0), array_size=3, children={0: Script(seconds=0, exit_code=1), 2: LASTING}
    )
    await world.wait_for(child_id(array, 0), Status.FAILED)
    await world.wait_for(child_id(array, 1), Status.SUCCEEDED)
    await world.wait_for(child_id(array, 2), Status.RUNNING)
    await world.wait_until_idle()

    why = await world.wait_for_why(array, "CHILDREN", "2 of 3 children have ended (1 failed), 1 active, 0 waiting.")

    assert why.facts == {"size": 3, "succeeded": 1, "failed": 1, "active": 1, "queued": 0, "unspawned": 0}


async def test_a_terminated_array_counts_the_children_that_are_left(world):
    array = await world.submit(IGNORES_SIGTERM, array_size=2, grace=timedelta(minutes=9))
    for index in range(2):
        await world.wait_for_output(child_id(array, index), "ready")

    await world.terminate(array, "too hot")

    await world.wait_for_why(
        array, "CHILDREN_STOPPING", 'Terminated by tester 0 s ago, "too hot": 2 of 2 children have not ended.'
    )


# ----------------------------------------------------------------------------------------- the server cannot start jobs


async def test_while_the_database_refuses_changes_jobs_continue_later(world):
    holder = await world.start(**FILLER)
    job = await world.submit(LASTING, millicpus=WHOLE)
    await world.wait_for(job, Status.RUNNABLE)

    world.store.failing = True
    await world.machine.kill((await world.job(holder)).tag)

    await world.wait_for_why(
        job,
        "STORE_UNAVAILABLE",
        "The server cannot save changes at present: jobs continue when its database accepts them again. "
        "Error: no space left on device.",
    )
    world.store.failing = False
    await world.wait_for(job, Status.RUNNING)


async def test_on_a_restored_backup_no_job_starts(world):
    await world.store.commit(Changes(restoration=Restoration(at=world.clock.now())))
    await world.restart()
    job = await world.submit(LASTING)
    await world.wait_for(job, Status.RUNNABLE)

    await world.wait_for_why(
        job,
        "SAFE_MODE",
        "The server runs on a restored backup: no job starts until an administrator runs `batchq leave-safe-mode`.",
    )


async def test_on_another_container_engine_no_job_starts(world):
    if not world.virtual:
        pytest.skip("there is one Docker engine")
    await world.start()
    await world.crash()
    known = world.machine
    world.runtime.runtime = SimulatedRuntime(clock=world.clock, machines=one_machine(HOST), engine_id="another")
    await world.boot()
    job = await world.submit(LASTING)
    await world.wait_for(job, Status.RUNNABLE)

    await world.wait_for_why(job, "ENGINE_CHANGED", "The container engine that answers is not the one that *.")
    await world.crash()
    await world.runtime.runtime.close()
    world.runtime.runtime = known
    await world.boot()


async def test_while_the_container_engine_is_away_no_job_starts_and_only_operators_read_its_error(world):
    world.runtime.unreachable = True
    await world.wait_for_engine(up=False)
    job = await world.submit(Script(seconds=0))
    await world.wait_for(job, Status.RUNNABLE)

    sentence = "The container engine has not answered for *: no job starts until it does."
    await world.wait_for_why(job, "ENGINE_UNAVAILABLE", f"{sentence} *", detail="the engine is away")
    owner = await world.wait_for_why(job, "ENGINE_UNAVAILABLE", sentence, caller=Caller(user=ADMIN.user))
    assert owner.facts == {}


# ------------------------------------------------------------------------------------------------------------- RUNNABLE


async def test_a_job_that_a_bulk_stop_selected_does_not_start(world):
    await world.start(**FILLER)
    job = await world.submit(LASTING, millicpus=WHOLE)
    await world.wait_for(job, Status.RUNNABLE)
    order = (await world.job(job)).sequence
    world.engine.loop._bulk_stops.targets = IntervalSet([(order, order)])  # for the moment between two units of work

    await world.wait_for_why(job, "STOP_PENDING", "A stop order is about to be applied to it: it does not start.")
    world.engine.loop._bulk_stops.targets = IntervalSet()


async def test_without_an_enabled_environment_no_job_of_a_queue_starts(world):
    await world.catalog.compute_environments.update(
        LOCAL, lambda value: replace(value, state=State.DISABLED), caller=ADMIN
    )
    job = await world.submit(Script(seconds=0))

    await world.wait_for_why(job, "NO_ENVIRONMENT", "No compute environment of queue default is enabled: local.")
    await world.catalog.compute_environments.update(
        LOCAL, lambda other_value: replace(other_value, state=State.ENABLED), caller=ADMIN
    )
    await world.wait_for(job, Status.SUCCEEDED)


async def warning(world, job_id):
    """The warning of a submission like that of the job."""
    return world.submissions.warning((await world.job(job_id)).spec, {}, caller=world.caller)


async def test_a_job_with_more_vcpus_than_any_environment_cannot_start(world):
    job = await world.submit(LASTING, millicpus=16_000)

    why = await world.wait_for_why(
        job,
        "TOO_MANY_VCPUS",
        "Cannot start: requires 16 vCPUs, the largest compute environment of queue default has 4 vCPUs. "
        "Request less, or enlarge a compute environment.",
    )
    assert await warning(world, job) == why.sentence

    assert why.facts == {"jobQueue": "default", "required": 16.0, "limit": 4.0}


async def test_a_job_that_can_never_start_says_so_before_the_scheduler_has_tried_it(world):
    await world.start(**FILLER)
    await world.submit(LASTING, millicpus=WHOLE)  # the scheduler reads no job behind this one while the filler runs
    job = await world.submit(LASTING, millicpus=16_000)

    await world.wait_for_why(job, "TOO_MANY_VCPUS", "Cannot start: requires 16 vCPUs, *")
    assert not (await world.job(job)).unschedulable


async def test_the_warning_of_a_submission_follows_changes_of_the_environments(world):
    job = await world.run(millicpus=3000)
    warnings = []

    for vcpus in (4, 2, 3):
        await world.catalog.compute_environments.update(
            LOCAL, lambda environment, vcpus=vcpus: replace(environment, max_millicpus=vcpus * 1000), caller=ADMIN
        )
        warnings.append([await warning(world, job) for _ in range(2)])

    assert warnings[0] == warnings[2] == [None, None]
    assert all("requires 3 vCPUs" in other_warning for other_warning in warnings[1])


async def test_a_job_with_more_memory_than_the_host_cannot_start(world):
    job = await world.submit(LASTING, memory_mib=10 * 2**20)

    why = await world.wait_for_why(
        job, "TOO_LARGE", "Cannot start: requires 10,240 GiB of memory, jobs may use * of this host."
    )
    assert await warning(world, job) == why.sentence


async def test_a_job_that_is_larger_than_the_limit_of_its_account_cannot_start(world):
    world.caller = limited(world, vcpus=1.0)
    job = await world.submit(LASTING, millicpus=2000, user="1000:1000")

    why = await world.wait_for_why(
        job, "ABOVE_ACCOUNT_LIMIT", "Cannot start: requires 2 vCPUs, account lab may use 1 vCPU."
    )
    assert await warning(world, job) == why.sentence


async def test_a_job_whose_resource_was_deleted_cannot_start(world, licences):
    holder = await world.start(**FILLER)
    job = await world.submit(LASTING, needs={LICENCES: 1}, millicpus=WHOLE)
    await world.wait_for(job, Status.RUNNABLE)
    await world.catalog.consumable_resources.delete(LICENCES, caller=ADMIN)
    await world.finish(holder)

    why = await world.wait_for_why(
        job, "RESOURCE_MISSING", "Cannot start: requires consumable resource licences, which does not exist."
    )
    assert await warning(world, job) == why.sentence


async def test_a_job_that_requires_more_units_than_there_are_cannot_start(world, licences):
    holder = await world.start(**FILLER)
    job = await world.submit(LASTING, needs={LICENCES: 2}, millicpus=WHOLE)
    await world.wait_for(job, Status.RUNNABLE)
    await world.catalog.consumable_resources.change_total(
        LICENCES, operation=QuantityOperation.SET, quantity=1, token=None, caller=ADMIN
    )
    await world.finish(holder)

    why = await world.wait_for_why(
        job, "TOO_MANY_UNITS", "Cannot start: requires 2 of consumable resource licences, there are 1 in all."
    )
    assert await warning(world, job) == why.sentence


def limited(world, **limits):
    """Ada of account lab, which has these limits."""
    lab = Account(name="lab", limits=AccountLimits(**limits), allowance=ContainerPolicy(host_network=True))
    world.people = replace(
        world.people, users=world.people.users | {"ada": User(name="ada", account="lab")}, accounts={"lab": lab}
    )
    world.engine.mailbox.catalog_changed()
    return Caller(user="ada", account="lab", lineage=("lab", "root"))


async def test_at_the_limit_of_its_account_a_job_waits(world):
    world.caller = limited(world, vcpus=1.0)
    await world.start(millicpus=750, user="1000:1000")
    job = await world.submit(LASTING, millicpus=500, user="1000:1000")
    await world.wait_for(job, Status.RUNNABLE)
    await world.wait_until_idle()

    await world.wait_for_why(
        job,
        "ACCOUNT_LIMIT",
        "Requires 0.5 vCPUs: account lab uses 0.75 of its 1 vCPU. Jobs of other accounts are not delayed by that.*",
        account="lab",
        used=0.75,
    )


async def test_the_first_job_of_a_queue_shows_what_it_requires_what_is_free_and_who_holds_the_rest(world):
    await world.start(name="filler", millicpus=2500, limit=3600)
    job = await world.submit(LASTING, millicpus=WHOLE)

    await world.wait_for_why(
        job,
        "WAITS_FOR_VCPUS",
        "First in queue default: requires 4 vCPUs, 1.5 of 4 are free in local. In use by filler. "
        "By its time limit filler ends within 1 h.",
        required=4.0,
        free=1.5,
        limit=4.0,
    )


async def test_the_end_of_a_job_that_was_ordered_to_stop_is_that_of_its_order(world):
    filler = await world.start(IGNORES_SIGTERM, **FILLER, limit=3600, grace=timedelta(minutes=10))
    await world.terminate(filler, "stop")
    await world.wait_for_why(filler, "STOPPING")
    job = await world.submit(LASTING, millicpus=WHOLE)

    await world.wait_for_why(
        job,
        "WAITS_FOR_VCPUS",
        "First in queue default: requires 4 vCPUs, 0 of 4 are free in local. In use by filler. "
        "By an order to stop it filler ends within *.",
    )


async def test_jobs_of_other_users_are_counted_and_not_named(world):
    await world.start(**FILLER, limit=3600)
    world.caller = limited(world)
    job = await world.submit(LASTING, millicpus=WHOLE, user="1000:1000")

    await world.wait_for_why(
        job,
        "WAITS_FOR_VCPUS",
        "First in queue default: requires 4 vCPUs, 0 of 4 are free in local. In use by 1 job. "
        "By its time limit a job of another user ends within 1 h*.",
        holders=(),
    )
    with pytest.raises(NotFound):
        await world.why(job, caller=Caller(user="bob"))


async def test_the_first_job_of_a_queue_waits_for_memory(world):
    await world.wait_until_idle()
    host = world.engine.cluster().host.memory_mib
    await world.start(name="filler", millicpus=250, memory_mib=host - 100)
    job = await world.submit(LASTING, memory_mib=200)

    await world.wait_for_why(
        job,
        "WAITS_FOR_MEMORY",
        "First in queue default: requires 200 MiB of memory, 100 MiB of * are free. In use by filler.",
    )


async def test_the_first_job_of_a_queue_waits_for_gpus(world):
    if not world.virtual:
        pytest.skip("the machines that run the tests have no GPU")
    world.runtime.runtime.engine.machines = one_machine(Resources(millicpus=4000, memory_mib=4096, gpus=1))
    await world.restart()
    await world.start(gpus=1, name="filler")

    job = await world.submit(LASTING, gpus=1, name="waits")

    await world.wait_for_why(
        job, "WAITS_FOR_GPUS", "First in queue default: requires 1 GPU, 0 of 1 are free. In use by filler."
    )


async def test_the_first_job_of_a_queue_waits_for_units_of_a_resource(world, licences):
    await world.start(needs={LICENCES: 2}, name="filler")
    job = await world.submit(LASTING, needs={LICENCES: 1})

    await world.wait_for_why(
        job,
        "WAITS_FOR_UNITS",
        "First in queue default: requires 1 of consumable resource licences, 0 of 2 are free. In use by filler.",
    )


async def test_what_a_job_of_another_queue_waits_for_is_reserved(world):
    await world.queue("urgent", priority=9)
    await world.start(name="filler", millicpus=2000)
    first = await world.submit(LASTING, millicpus=WHOLE, queue="urgent", name="large")
    await world.wait_for_why(first, "WAITS_FOR_VCPUS")
    job = await world.submit(LASTING, millicpus=1000)

    why = await world.wait_for_why(
        job,
        "RESERVED_FOR_OTHERS",
        "First in queue default: requires 1 vCPU and 32 MiB of memory, which is reserved for large in queue urgent.",
    )
    hidden = await world.why(job, caller=Caller(user=ADMIN.user, queues=frozenset({"default"})))

    assert why.facts["reservedFor"] == ({"jobId": first, "jobName": "large"},)
    assert hidden.sentence.endswith("which is reserved for large in another queue.")


async def test_a_job_behind_others_has_a_place_in_line(world):
    await world.start(**FILLER)
    first, second, third = [await world.submit(LASTING, millicpus=WHOLE) for _ in range(3)]
    await world.wait_for_why(first, "WAITS_FOR_VCPUS")

    await world.wait_for_why(
        third,
        "IN_LINE",
        "Place in queue default: 3rd, behind 2 jobs requesting 8 vCPUs. "
        "The first one waits for vCPUs of compute environment local. 1 job of the queue has started within the last *.",
        place=3,
        ahead=2,
        aheadVcpus=8.0,
    )
    await world.wait_for_why(second, "IN_LINE", "Place in queue default: 2nd, behind 1 job requesting 4 vCPUs. *")


async def test_a_retried_job_shows_how_its_last_attempt_ended(world):
    job = await world.start(lasting(3), attempts=2)
    world.engine.loop.closing = True  # no placement pass follows, so that the job is not placed again at once
    await world.finish(job, Status.RUNNABLE)

    await world.wait_for_why(
        job, "RETRY", "Waits for attempt 2 of 2: attempt 1 ended with exit code 3. Place in queue default: 1st."
    )
    resume_placement(world)
    await world.wait_for(job, Status.RUNNING)


async def test_a_retried_first_job_of_a_queue_shows_how_its_last_attempt_ended(world):
    await world.queue("urgent", priority=9)
    retried = await world.start(lasting(3), attempts=2, millicpus=WHOLE)
    urgent = await world.submit(LASTING, millicpus=WHOLE, queue="urgent")
    await world.wait_for_why(urgent, "WAITS_FOR_VCPUS")
    await world.finish(retried)
    await world.wait_for(urgent, Status.RUNNING)

    await world.wait_for_why(retried, "WAITS_FOR_VCPUS", "* Attempt 1 of 2 ended with exit code 3.")


def resume_placement(world):
    world.engine.loop.closing = False
    world.engine.mailbox.catalog_changed()


async def test_a_job_is_tried_in_the_next_unit_of_work(world):
    world.engine.loop.closing = True  # jobs are accepted, and no placement pass follows
    job = await world.submit(Script(seconds=0))
    await world.wait_for(job, Status.RUNNABLE)

    await world.wait_for_why(
        job, "NEXT", "Next in queue default: the scheduler tries to place it in the next unit of work."
    )
    resume_placement(world)
    await world.wait_for(job, Status.SUCCEEDED)


# ----------------------------------------------------------------------------------------------------------- fair share


@pytest.fixture
async def fair(world):
    """The queue `fair`, whose policy keeps half of the vCPUs for shares without jobs."""
    policy = builders.policy(reservation=50)
    await world.catalog.scheduling_policies.create(policy, caller=ADMIN)
    await world.queue("fair", policy=policy.name)


async def test_vcpus_are_kept_for_shares_without_jobs(world, fair):
    await world.start(queue="fair", share="blue", millicpus=1000)
    job = await world.submit(LASTING, queue="fair", share="blue", millicpus=2000)

    await world.wait_for_why(
        job,
        "RESERVED_FOR_SHARES",
        "Requires 2 vCPUs: computeReservation 50 of queue fair keeps vCPUs for shares that have no jobs.",
    )


async def test_a_job_waits_until_its_share_is_next(world, fair):
    await world.start(**FILLER)
    first = await world.submit(LASTING, queue="fair", share="blue", millicpus=1000)
    second = await world.submit(LASTING, queue="fair", share="blue", millicpus=1000)
    await world.wait_for_why(first, "WAITS_FOR_VCPUS")

    await world.wait_for_why(
        second,
        "SHARE_TURN",
        "Place in share blue of queue fair: 2nd; the shares take turns by their recent use. "
        "Jobs of this share hold 0 vCPUs.",
        place=2,
        shareIdentifier="blue",
    )


async def test_the_first_job_of_each_queue_is_explained_to_those_who_may_see_it(world):
    default = QueueName("default")
    await world.start(**FILLER)
    job = await world.submit(LASTING, millicpus=WHOLE)
    await world.wait_for_why(job, "WAITS_FOR_VCPUS")
    queues = [default, QueueName("absent")]

    seen = await world.server.explanations.heads(queues, caller=ADMIN)
    hidden = await world.server.explanations.heads(queues, caller=Caller(user="bob"))

    assert {queue: explanation.code for queue, explanation in seen.items()} == {default: "WAITS_FOR_VCPUS"}
    assert hidden == {}
