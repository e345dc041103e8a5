"""The steps of a search and of an overview do not grow with the number of stored jobs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.enums import Status
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import PageQuery, SearchOrder
from batchq.ports.jobs import Changes
from batchq.store import database
from batchq.store.sqlite_store import SqliteStore
from tests.store.many import filled, id_of
from tests.store.test_many_jobs import EACH, Counter
from tests.support.builders import NOON, job, moment

FEW = 1000
MANY = [
    5000,
    pytest.param(50_000, marks=pytest.mark.exhaustive),
    pytest.param(1_000_000, marks=[pytest.mark.million, pytest.mark.exhaustive, pytest.mark.timeout(900)]),
]
OWN = Owner(user="ada", account="lab")
ADA = Visibility(user="ada")
CORA = Visibility(user="cora", accounts=frozenset({"lab", "team"}))
LATE = int(NOON.timestamp() * 1000) + 10**9
MOST_STEPS = 1_500_000  # for a page that reads as much as one may


def page(order_by=SearchOrder.CREATED, **selection):
    return PageQuery(selection=JobSelection(**selection), order_by=order_by, limit=50)


PAGES = {
    "all": page(),
    "of a status": page(statuses=frozenset({Status.SUCCEEDED})),
    "that fail, by end": PageQuery(
        selection=JobSelection(statuses=frozenset({Status.FAILED})), order_by=SearchOrder.ENDED, limit=50
    ),
    "by end": page(order_by=SearchOrder.ENDED),
    "of a user": page(users=frozenset({"ada"})),
    "that ada sees": page(visibility=ADA),
    "that cora sees, by name": page(visibility=CORA, names=frozenset({"*wn*"})),
    "that ada sees, by end": page(visibility=ADA, order_by=SearchOrder.ENDED),
    "by id": page(ids=(id_of(7),)),
    "by the beginning of an id": page(id_prefix=id_of(7)[:8]),
    "created later": page(created_after=LATE),
}
BOUNDED = {
    "by a rare name": page(names=frozenset({"*rare*"})),
    "by a rare name, of a status": PageQuery(
        selection=JobSelection(names=frozenset({"*rare*"}), statuses=frozenset({Status.SUCCEEDED})), limit=50
    ),
    "children": page(children=True, names=frozenset({"*rare*"})),
    "by a rare name, by end": PageQuery(
        selection=JobSelection(names=frozenset({"*rare*"})), order_by=SearchOrder.ENDED, limit=50
    ),
}


async def test_a_search_that_takes_too_many_steps_ends_where_it_is(tmp_path, monkeypatch):
    filled(tmp_path, FEW)
    store = await SqliteStore.open(tmp_path)
    monkeypatch.setattr(database, "MAX_SEARCH_STEPS", 1)

    page = await store.search(BOUNDED["children"])

    monkeypatch.undo()
    rest = await store.search(replace(BOUNDED["children"], before=page.next))
    await store.close()
    assert (page.jobs, rest.next) == ((), None)
    assert page.next is not None


async def costs(data, count):
    """The steps of each page and of an overview, among so many jobs of others."""
    filled(data, count)
    store = await SqliteStore.open(data)
    own = [job(number=count + number, status=Status.FAILED, owner=OWN, name=f"own-{number}") for number in range(10)]
    ends = tuple(moment(job, at=NOON + timedelta(days=1)) for job in own)
    await store.commit(Changes(inserted=tuple(own), history=ends))
    await store._database._searcher.connection.set_progress_handler(counter := Counter(), EACH)
    found = {name: await counter.cost(store.search(query)) for name, query in (PAGES | BOUNDED).items()}
    found["overview"] = await counter.cost(store.overview_facts(NOON, (), visibility=ADA))
    pages = {name: await store.search(query) for name, query in BOUNDED.items()}
    await store.close()
    return found, pages


@pytest.mark.fault("SE25")
@pytest.mark.parametrize("count", MANY)
async def test_the_cost_of_a_page_does_not_grow_with_the_number_of_jobs(tmp_path, count):
    few, _ = await costs(tmp_path / "few", FEW)

    many, pages = await costs(tmp_path / "many", count)

    more = {name: (few[name], many[name]) for name in many.keys() - BOUNDED.keys() if many[name] > few[name] * 1.2 + 8}
    assert more == {}
    assert {name: many[name] for name in BOUNDED if many[name] * EACH > MOST_STEPS} == {}
    assert [name for name, page in pages.items() if count > 50_000 and page.next is None] == []
