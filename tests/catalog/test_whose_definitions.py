"""Names of job definitions are their first owners'."""

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
async def test_a_name_is_taken_by_who_first_registers_it(catalog, other):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    assert made.owner == Owner(user="ada", account="team")
    with pytest.raises(Forbidden, match=REFUSED.format(other.user, "name a")):
        await catalog.definitions.register(definition(name="a"), caller=other)


async def test_whose_name_it_is_stays_so_whoever_adds_a_revision(catalog):
    await catalog.definitions.register(definition(name="a"), caller=ADA)

    revised = [await catalog.definitions.register(definition(name="a"), caller=it) for it in (ODA, CORA, ADA)]

    assert {it.owner for it in revised} == {ADA.owner}
    assert [it.ref.revision for it in revised] == [2, 3, 4]


async def test_it_stays_so_when_no_revision_is_active_any_more(catalog, reopened):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)
    await catalog.definitions.deregister(made.ref, caller=ADA)

    again = await reopened()

    with pytest.raises(Forbidden):
        await again.definitions.register(definition(name="a"), caller=EVE)


async def test_of_two_who_take_a_name_at_once_one_has_it(catalog):
    both = [catalog.definitions.register(definition(name="a"), caller=it) for it in (ADA, EVE)]

    first, second = await asyncio.gather(*both, return_exceptions=True)

    assert first.owner == ADA.owner
    assert isinstance(second, Forbidden)
    assert await seen(catalog, ODA) == ["a:1"]


@pytest.mark.parametrize("owner", [CORA, BOB], ids=["of the account above", "of the same"])
async def test_what_is_of_ones_account_or_above_is_there_to_be_used_and_not_to_be_changed(catalog, owner):
    made = await catalog.definitions.register(definition(name="a"), caller=owner)

    assert await seen(catalog, ADA) == ["a:1"]
    assert await catalog.definitions.find("a", None, caller=ADA) == made
    with pytest.raises(Forbidden, match=REFUSED.format("ada", "a:1")):
        await catalog.definitions.deregister(made.ref, caller=ADA)
    with pytest.raises(Forbidden, match=REFUSED.format("ada", "a:1")):
        await catalog.definitions.tag(made.ref, (("k", "v"),), caller=ADA)


async def test_what_is_of_another_account_or_below_is_not_there(catalog):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    assert await seen(catalog, EVE) == []
    assert await catalog.definitions.get_visible(made.ref, caller=EVE) is None
    with pytest.raises(NotFound, match="does not exist or is not in ACTIVE status"):
        await catalog.definitions.find("a", 1, caller=EVE)
    with pytest.raises(NotFound, match="JobDefinition a:1 not found"):
        await catalog.definitions.untag(made.ref, ["k"], caller=EVE)


async def test_to_deregister_what_is_not_there_for_one_changes_nothing(catalog):
    made = await catalog.definitions.register(definition(name="a"), caller=ADA)

    await catalog.definitions.deregister(made.ref, caller=EVE)

    assert (await catalog.definitions.get(made.ref)).status is DefinitionStatus.ACTIVE
