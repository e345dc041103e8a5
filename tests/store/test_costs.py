"""Spending in SQLite: pages of whole days, and what a caller sees."""

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.cost import Amounts, Spending
from batchq.domain.enums import CostGroup
from batchq.domain.ids import QueueName
from batchq.ports.costs import SpendingQuery
from batchq.ports.jobs import Changes
from batchq.store import costs
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import NOON

TODAY = NOON.date()
ONE = Spending(
    day=TODAY,
    owner=Owner(user="ada", account="lab"),
    queue=QueueName("default"),
    definition="train",
    currency="EUR",
    amounts=Amounts(gpu=Decimal("0.1"), compute=Decimal("0.000000001")),
)


@pytest.fixture
async def store(tmp_path):
    store = await SqliteStore.open(tmp_path)
    yield store
    await store.close()


async def page(store, *, days=1, by=CostGroup.USER, visibility=None, first=TODAY):
    last = TODAY + timedelta(days=days - 1)
    return await store.spending(SpendingQuery(by=by, first=first, last=last, visibility=visibility))


async def test_spending_of_the_same_day_and_group_is_added(store):
    await store.commit(Changes(spending=(ONE, ONE)))
    await store.commit(Changes(spending=(ONE,)))

    (group,) = (await page(store)).groups
    assert (group.name, group.currency) == ("ada", "EUR")
    assert group.amounts == Amounts(gpu=Decimal("0.3"), compute=Decimal("0.000000003"))


async def test_a_page_ends_with_a_whole_day(store, monkeypatch):
    monkeypatch.setattr(costs, "MAX_EXAMINED", 3)
    days = [
        replace(ONE, day=TODAY + timedelta(days=index), queue=QueueName(q)) for index in range(3) for q in ("a", "b")
    ]
    await store.commit(Changes(spending=tuple(days)))

    first = await page(store, days=3)
    second = await page(store, days=3, first=first.following)

    assert [first.following, second.following] == [TODAY + timedelta(days=1), TODAY + timedelta(days=2)]
    assert first.groups[0].amounts.gpu == second.groups[0].amounts.gpu == Decimal("0.2")
    assert not first.is_cut


async def test_a_day_with_too_many_rows_is_cut(store, monkeypatch):
    monkeypatch.setattr(costs, "MAX_EXAMINED", 3)
    await store.commit(Changes(spending=tuple(replace(ONE, definition=f"d{index}") for index in range(5))))

    found = await page(store, days=2)

    assert found.is_cut
    assert found.following == TODAY + timedelta(days=1)


async def test_only_visible_spending_is_read(store):
    other = replace(ONE, owner=Owner(user="bob", account="other"))
    await store.commit(Changes(spending=(ONE, other)))

    async def names(visibility):
        return {group.name for group in (await page(store, visibility=visibility)).groups}

    assert await names(None) == {"ada", "bob"}
    assert await names(Visibility(user="eve")) == set()
    assert await names(Visibility(user="bob")) == {"bob"}
    assert await names(Visibility(user="eve", accounts=frozenset({"lab"}))) == {"ada"}


async def totals(store, since=None):
    return dict(await store.spending_totals(since))


async def spent_on(store, day):
    found = await store.spending(SpendingQuery(by=CostGroup.USER, first=day, last=day, visibility=None))
    return sum(group.amounts.gpu for group in found.groups)


async def merge_all(store, before, *, limit=2):
    while await store.merge_spending(before, limit=limit):
        pass


async def test_old_days_are_added_up_by_month_and_no_spending_is_lost(store):
    days = [TODAY.replace(month=month, day=day) for month in (1, 2) for day in (1, 2, 28)]
    await store.commit(
        Changes(spending=tuple(replace(ONE, day=day, queue=QueueName(q)) for day in days for q in ("a", "b", "c")))
    )
    before = await totals(store)

    await merge_all(store, TODAY.replace(month=2, day=3))

    assert await totals(store) == before
    assert [await spent_on(store, day) for day in days] == [
        Decimal(text) for text in ("0.9", "0", "0", "0.6", "0", "0.3")
    ]


async def test_a_merge_ends_when_old_spending_is_by_month(store):
    await store.commit(
        Changes(spending=tuple(replace(ONE, day=TODAY.replace(month=number, day=1)) for number in (1, 2, 3)))
    )

    assert await store.merge_spending(TODAY, limit=10) == 0
