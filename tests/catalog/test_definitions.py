"""Names of job definitions belong to their first owners."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Caller, Owner
from batchq.domain.catalog import DefinitionStatus
from batchq.domain.enums import Role
from batchq.domain.ids import DefinitionRef
from batchq.errors import Forbidden, NotFound, StoreFailed
from batchq.services import catalog_tables
from tests.support.builders import ADMIN, definition

UNKNOWN = "^JobDefinition name {} does not exist or is not in ACTIVE status$"


async def test_without_a_revision_the_newest_active_is_found_and_no_revision_is_reused(catalog):
    await catalog.definitions.register(definition(name="a", image="one"), caller=ADMIN)
    await catalog.definitions.register(definition(name="a", image="two"), caller=ADMIN)
    await catalog.definitions.register(definition(name="a", image="three"), caller=ADMIN)

    await catalog.definitions.deregister(DefinitionRef(name="a", revision=3), caller=ADMIN)

    assert (await catalog.definitions.find("a", None, caller=ADMIN)).nodes.leading.spec.image == "two"
    assert (await catalog.definitions.find("a", 1, caller=ADMIN)).nodes.leading.spec.image == "one"
    assert (await catalog.definitions.register(definition(name="a"), caller=ADMIN)).ref.revision == 4


async def test_a_new_revision_is_the_newest_at_once(catalog):
    await catalog.definitions.register(definition(name="a"), caller=ADMIN)
    await catalog.definitions.find("a", None, caller=ADMIN)

    await catalog.definitions.register(definition(name="a"), caller=ADMIN)

    assert (await catalog.definitions.find("a", None, caller=ADMIN)).ref.revision == 2


async def test_an_inactive_definition_submits_no_job_and_is_described(catalog, reopened):
    made = await catalog.definitions.register(definition(name="a"), caller=ADMIN)
    await catalog.definitions.deregister(made.ref, caller=ADMIN)

    again = await reopened()

    with pytest.raises(NotFound, match=UNKNOWN.format("a:1")):
        await again.definitions.find("a", 1, caller=ADMIN)
    with pytest.raises(NotFound, match=UNKNOWN.format("a")):
        await again.definitions.find("a", None, caller=ADMIN)
    assert await again.definitions.get(made.ref) == replace(made, status=DefinitionStatus.INACTIVE)


async def test_tags_of_a_definition_change(catalog, reopened):
    made = await catalog.definitions.register(definition(name="a", tags=(("k", "v"),)), caller=ADMIN)

    await catalog.definitions.tag(made.ref, (("k", "w"), ("l", "x")), caller=ADMIN)
    await catalog.definitions.untag(made.ref, ["k"], caller=ADMIN)

    assert (await catalog.definitions.find("a", None, caller=ADMIN)).tags == (("l", "x"),)
    assert await (await reopened()).definitions.get(made.ref) == replace(made, tags=(("l", "x"),))


async def test_a_definition_that_the_store_refuses_is_not_cached(catalog, store):
    made = await catalog.definitions.register(definition(name="a"), caller=ADMIN)
    store.failing = True

    with pytest.raises(StoreFailed):
        await catalog.definitions.register(definition(name="a"), caller=ADMIN)
    with pytest.raises(StoreFailed):
        await catalog.definitions.deregister(made.ref, caller=ADMIN)

    assert await catalog.definitions.find("a", None, caller=ADMIN) == made


async def test_definitions_beyond_the_cache_are_found(catalog):
    made = [
        await catalog.definitions.register(definition(name=f"a{number}"), caller=ADMIN)
        for number in range(catalog_tables.MAX_CACHED + 10)
    ]

    assert [
        await catalog.definitions.find(other_definition.ref.name, None, caller=ADMIN) for other_definition in made
    ] == made


ADA = Caller(user="ada", account="team", lineage=("team", "lab", ROOT), operation="It")
BOB = replace(ADA, user="bob")
CORA = Caller(user="cora", account="lab", lineage=("lab", ROOT), coordinates=frozenset({"lab", "team"}))
EVE = Caller(user="eve", account="other", lineage=("other", ROOT), operation="It")
ODA = Caller(user="oda", role=Role.OPERATOR)
REFUSED = "^User {} is not authorized to perform It: the job definition {} belongs to another user.$"


async def seen(catalog, caller):
    found = await catalog.definitions.page(name=None, status=None, limit=9, after=None, caller=caller)
    return [str(other_definition.ref) for other_definition in found]


@pytest.mark.parametrize("other", [BOB, EVE], ids=["of the same account", "of another"])
async def test_a_name_belongs_to_its_first_owner(catalog, other):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    assert made.owner == Owner(user="ada", account="team")
    with pytest.raises(Forbidden, match=REFUSED.format(other.user, "name a")):
        await catalog.definitions.register(definition(name="a"), caller=other)


async def test_the_owner_of_a_name_stays_after_revisions_of_others(catalog):
    await catalog.definitions.register(definition(name="a"), caller=ADA)

    revised = [await catalog.definitions.register(definition(name="a"), caller=caller) for caller in (ODA, CORA, ADA)]

    assert {definition.owner for definition in revised} == {ADA.owner}
    assert [other_definition.ref.revision for other_definition in revised] == [2, 3, 4]


async def test_the_owner_of_a_name_stays_without_active_revisions(catalog, reopened):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)
    await catalog.definitions.deregister(made.ref, caller=ADA)

    again = await reopened()

    with pytest.raises(Forbidden):
        await again.definitions.register(definition(name="a"), caller=EVE)


async def test_of_two_concurrent_registrations_of_a_name_one_succeeds(catalog):
    both = [catalog.definitions.register(definition(name="a"), caller=caller) for caller in (ADA, EVE)]

    first, second = await asyncio.gather(*both, return_exceptions=True)

    assert first.owner == ADA.owner
    assert isinstance(second, Forbidden)
    assert await seen(catalog, ODA) == ["a:1"]


@pytest.mark.parametrize("owner", [CORA, BOB], ids=["of the account above", "of the same"])
async def test_definitions_of_the_own_account_or_above_may_be_used_and_not_changed(catalog, owner):
    made = await catalog.definitions.register(definition(name="a"), caller=owner)

    assert await seen(catalog, ADA) == ["a:1"]
    assert await catalog.definitions.find("a", None, caller=ADA) == made
    with pytest.raises(Forbidden, match=REFUSED.format("ada", "a:1")):
        await catalog.definitions.deregister(made.ref, caller=ADA)
    with pytest.raises(Forbidden, match=REFUSED.format("ada", "a:1")):
        await catalog.definitions.tag(made.ref, (("k", "v"),), caller=ADA)


async def test_definitions_of_other_accounts_are_hidden(catalog):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    assert await seen(catalog, EVE) == []
    assert await catalog.definitions.get_visible(made.ref, caller=EVE) is None
    with pytest.raises(NotFound, match="does not exist or is not in ACTIVE status"):
        await catalog.definitions.find("a", 1, caller=EVE)
    with pytest.raises(NotFound, match="JobDefinition a:1 not found"):
        await catalog.definitions.untag(made.ref, ["k"], caller=EVE)


async def test_deregistering_a_hidden_definition_changes_nothing(catalog):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    await catalog.definitions.deregister(made.ref, caller=EVE)

    assert (await catalog.definitions.get(made.ref)).status is DefinitionStatus.ACTIVE
