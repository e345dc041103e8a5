"""Names of job definitions belong to their first owners."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import ROOT, Caller, Owner, Role
from batchq.domain.catalog import DefinitionStatus
from batchq.errors import Forbidden, NotFound
from tests.support.builders import definition

ADA = Caller(user="ada", account="team", lineage=("team", "lab", ROOT), operation="It")
BOB = replace(ADA, user="bob")
CORA = Caller(user="cora", account="lab", lineage=("lab", ROOT), coordinates=frozenset({"lab", "team"}))
EVE = Caller(user="eve", account="other", lineage=("other", ROOT), operation="It")
ODA = Caller(user="oda", role=Role.OPERATOR)
REFUSED = "^User {} is not authorized to perform It: the job definition {} belongs to another user.$"


async def seen(catalog, caller):
    found = await catalog.definitions.page(name=None, status=None, limit=9, after=None, caller=caller)
    return [str(it.ref) for it in found]


@pytest.mark.parametrize("other", [BOB, EVE], ids=["of the same account", "of another"])
async def test_a_name_belongs_to_its_first_owner(catalog, other):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    assert made.owner == Owner(user="ada", account="team")
    with pytest.raises(Forbidden, match=REFUSED.format(other.user, "name a")):
        await catalog.definitions.register(definition(name="a"), caller=other)


async def test_the_owner_of_a_name_stays_after_revisions_of_others(catalog):
    await catalog.definitions.register(definition(name="a"), caller=ADA)

    revised = [await catalog.definitions.register(definition(name="a"), caller=it) for it in (ODA, CORA, ADA)]

    assert {it.owner for it in revised} == {ADA.owner}
    assert [it.ref.revision for it in revised] == [2, 3, 4]


async def test_the_owner_of_a_name_stays_without_active_revisions(catalog, reopened):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)
    await catalog.definitions.deregister(made.ref, caller=ADA)

    again = await reopened()

    with pytest.raises(Forbidden):
        await again.definitions.register(definition(name="a"), caller=EVE)


async def test_of_two_concurrent_registrations_of_a_name_one_succeeds(catalog):
    both = [catalog.definitions.register(definition(name="a"), caller=it) for it in (ADA, EVE)]

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
