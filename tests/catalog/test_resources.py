"""Compute environments, job queues and scheduling policies: creation, changes, deletion and tags."""

import asyncio
import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from batchq.domain import catalog as rules
from batchq.domain.catalog import ComputeEnvironment, ShareWeight
from batchq.domain.enums import State
from batchq.errors import Invalid, NotFound, StoreFailed
from batchq.services.catalog import CatalogService
from tests.catalog.conftest import NoonClock, disabled_queue, make_consumable, make_environment, make_policy, make_queue
from tests.support.builders import ADMIN, definition, environment, queue
from tests.support.inline import InlineStore
from tests.support.stubs import BOTTOMLESS

# ------------------------------------------------------------------------------------------------------------- making


async def test_of_concurrent_creations_of_a_name_one_succeeds(catalog):
    outcomes = await asyncio.gather(
        *(make_environment(catalog, max_millicpus=number) for number in range(1, 6)), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes[1:]] == [Invalid] * 4
    assert catalog.environments == {"local": outcomes[0]}


# ------------------------------------------------------------------------------------------------------------ changing


async def test_an_update_changes_only_the_given_members(catalog, reopened):
    await make_environment(catalog)
    await make_environment(catalog, "other")
    await make_queue(catalog, tags=(("k", "v"),))

    await catalog.compute_environments.update(
        "local", lambda other_environment: replace(other_environment, max_millicpus=500), caller=ADMIN
    )
    await catalog.job_queues.update(
        "default", lambda value: replace(value, state=State.DISABLED, environments=("other", "local")), caller=ADMIN
    )

    again = await reopened()
    assert again.environments["local"] == environment(max_millicpus=500)
    assert again.queues["default"] == queue(state=State.DISABLED, environments=("other", "local"), tags=(("k", "v"),))


async def test_each_change_is_published_once_it_is_saved(catalog, changed):
    await make_environment(catalog)
    await disabled_queue(catalog)
    await catalog.job_queues.update("default", lambda value: replace(value, priority=2), caller=ADMIN)
    await catalog.job_queues.delete("default", caller=ADMIN)

    assert changed.count == 4


async def test_a_change_that_the_store_refuses_has_no_effect(catalog, store, changed):
    made = await make_environment(catalog)
    line = await disabled_queue(catalog)
    store.failing = True
    before = changed.count

    with pytest.raises(StoreFailed):
        await catalog.compute_environments.update(
            "local", lambda value: replace(value, state=State.DISABLED), caller=ADMIN
        )
    with pytest.raises(StoreFailed):
        await catalog.job_queues.delete("default", caller=ADMIN)
    with pytest.raises(StoreFailed):
        await make_queue(catalog, "other")

    assert (catalog.environments, catalog.queues) == ({"local": made}, {"default": line})
    assert changed.count == before


class Saved(InlineStore):
    """Sets an event when it has saved, and then delays its result."""

    def __init__(self):
        super().__init__()
        self.saved, self.answer = asyncio.Event(), asyncio.Event()

    async def put_resource(self, resource, *, caller):
        await super().put_resource(resource, caller=caller)
        self.saved.set()
        await self.answer.wait()


async def test_a_cancelled_caller_leaves_memory_and_store_equal(changed):
    store = Saved()
    catalog = CatalogService(store=store, jobs=store, clock=NoonClock(), disk_guard=BOTTOMLESS, changed=changed)
    request = asyncio.ensure_future(make_environment(catalog))
    await store.saved.wait()

    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    store.answer.set()
    await catalog.job_queues.write_lock.run("the next change", store.feed_ends)

    assert request.cancelled()
    assert list(catalog.environments.values()) == list(await store.resources(ComputeEnvironment)) == [environment()]


async def test_the_error_of_a_change_whose_caller_was_cancelled_is_not_reported_as_unhandled(catalog):
    reported, begun, goes_on = [], asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

    async def fail():
        begun.set()
        await goes_on.wait()
        raise StoreFailed("disk I/O error")

    request = asyncio.ensure_future(catalog.job_queues.write_lock.run("a change", fail))
    await begun.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    goes_on.set()
    await make_environment(catalog)  # the next change
    del request  # its traceback refers to the change
    gc.collect()

    assert reported == []


async def test_concurrent_changes_are_all_applied(catalog):
    await make_environment(catalog)

    await asyncio.gather(
        *(catalog.compute_environments.tag("local", ((f"key{number}", "v"),), caller=ADMIN) for number in range(20))
    )

    assert len(catalog.environments["local"].tags) == 20


# ------------------------------------------------------------------------------------------------------------ deleting


async def test_a_deleted_name_can_be_reused(catalog, reopened):
    await make_environment(catalog, state=State.DISABLED)
    await disabled_queue(catalog)

    await catalog.job_queues.delete("default", caller=ADMIN)
    await catalog.compute_environments.delete("local", caller=ADMIN)

    again = await reopened()
    assert (again.environments, again.queues) == ({}, {})
    assert await make_environment(again) == environment()


# ---------------------------------------------------------------------------------------------------------------- tags


async def test_new_tags_replace_and_extend_existing_ones(catalog, reopened):
    await make_environment(catalog, tags=(("a", "1"), ("b", "2")))
    await make_queue(catalog, tags=(("a", "1"),))

    await catalog.compute_environments.tag("local", (("b", "3"), ("c", "4")), caller=ADMIN)
    await catalog.compute_environments.untag("local", ["a", "never was"], caller=ADMIN)
    await catalog.job_queues.tag("default", (("b", "3"),), caller=ADMIN)
    await catalog.job_queues.untag("default", ["a"], caller=ADMIN)

    again = await reopened()
    assert again.environments["local"].tags == (("b", "3"), ("c", "4"))
    assert again.queues["default"].tags == (("b", "3"),)


# ------------------------------------------------------------------------------------------------------ the first start


async def test_a_resource_is_created_with_at_most_fifty_tags(catalog):
    many = tuple((f"key{number}", "value") for number in range(51))

    for create in (make_environment, make_consumable):
        with pytest.raises(Invalid, match="at most 50 tags"):
            await create(catalog, tags=many)
    with pytest.raises(Invalid, match="at most 50 tags"):
        await catalog.definitions.register(definition(tags=many), caller=ADMIN)


async def test_the_first_start_creates_an_environment_and_a_queue(catalog):
    await catalog.install_defaults(max_millicpus=1500)

    made = catalog.environments["local"]
    assert (made.state, made.max_millicpus) == (State.ENABLED, 1500)
    assert json.loads(made.document)["computeResources"]["maxvCpus"] == 1
    assert catalog.queues == {"default": queue(environments=("local",))}


async def test_deleted_defaults_are_not_created_again(catalog, reopened):
    await catalog.install_defaults(max_millicpus=1000)
    await catalog.job_queues.update("default", lambda value: replace(value, state=State.DISABLED), caller=ADMIN)
    await catalog.job_queues.delete("default", caller=ADMIN)

    again = await reopened()
    await again.install_defaults(max_millicpus=1000)

    assert list(again.environments) == ["local"]
    assert again.queues == {}


async def test_an_interrupted_first_start_is_completed(catalog, reopened):
    await make_environment(catalog)

    again = await reopened()
    await again.install_defaults(max_millicpus=1000)

    assert again.environments == {"local": environment()}
    assert list(again.queues) == ["default"]


# ------------------------------------------------------------------------------------------------------------ policies


def weights(*identifiers):
    return tuple(ShareWeight(identifier=identifier) for identifier in identifiers)


def overlap(one, other):
    covers = one.endswith("*") and other.startswith(one[:-1])
    return covers or one == other


@given(some.lists(some.from_regex(r"\A[ab]{1,3}\*?\Z"), max_size=6))
def test_a_share_that_covers_another_overlaps_it(identifiers):
    pairs = [(one, other) for at, one in enumerate(identifiers) for other in identifiers[:at] + identifiers[at + 1 :]]
    refused = False

    try:
        rules.require_disjoint_shares(weights(*identifiers))
    except Invalid:
        refused = True

    assert refused == any(overlap(one, other) for one, other in pairs)


@pytest.fixture
async def fair_queue(catalog):
    await make_environment(catalog)
    await make_policy(catalog)
    return await disabled_queue(catalog, policy="fair")


async def test_the_policy_of_a_queue_can_be_replaced_and_not_removed(catalog, fair_queue):
    await make_policy(catalog, "other")

    await catalog.job_queues.update("default", lambda value: replace(value, policy="other"), caller=ADMIN)
    with pytest.raises(Invalid, match="cannot be removed"):
        await catalog.job_queues.update("default", lambda other_value: replace(other_value, policy=None), caller=ADMIN)
    with pytest.raises(NotFound):
        await catalog.job_queues.update("default", lambda one_value: replace(one_value, policy="nothing"), caller=ADMIN)

    assert catalog.queues["default"] == replace(fair_queue, policy="other")
