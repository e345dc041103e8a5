"""The results and previews that the server stores for forms: some for each user."""

import pytest

from batchq.api.console.forms import MAX_ALL_KEPT, MAX_INVOCATIONS, MAX_KEPT, Form, Invocations, PerUser, RecentResults
from batchq.domain.access.accounts import Caller

ADA, BOB = Caller(user="ada"), Caller(user="bob")
PATH = "/ui/jobs/a/hold"


def form(number):
    return Form(invocation=f"{number:036}")


@pytest.mark.fault("SE72")
def test_the_previews_of_one_user_displace_none_of_another_one():
    results = RecentResults()
    results.keep(ADA, "a", "of ada")
    for number in range(MAX_ALL_KEPT):
        results.keep(BOB, str(number), "of bob")

    assert results.find(str, ADA, "a") == "of ada"
    assert results.find(str, BOB, "a") is None
    assert sum(results.find(str, BOB, str(number)) is not None for number in range(MAX_ALL_KEPT)) == MAX_KEPT


@pytest.mark.fault("SE72")
async def test_the_orders_of_one_user_displace_no_result_of_another_one():
    invocations, orders = Invocations(), []

    async def order():
        orders.append(1)
        return "/ui/"

    await invocations.once(ADA, PATH, form(0), order)
    for number in range(20 * MAX_INVOCATIONS):
        await invocations.once(BOB, PATH, form(number), order)
    before = len(orders)
    await invocations.once(ADA, PATH, form(0), order)
    assert len(orders) == before


async def test_a_form_that_is_sent_twice_orders_once_and_one_for_another_path_is_another_order():
    invocations, orders = Invocations(), []

    async def order():
        orders.append(1)
        return f"/ui/{len(orders)}"

    found = [await invocations.once(ADA, path, form(0), order) for path in (PATH, PATH, "/ui/jobs/b/hold")]
    assert found == ["/ui/1", "/ui/1", "/ui/2"]


def test_beyond_the_total_the_user_with_most_values_loses_the_oldest_one():
    values = PerUser[int](of_user=3, in_all=4)
    for user, key in [("ada", 1), ("ada", 2), ("ada", 3), ("bob", 1), ("eve", 1)]:
        values.keep(user, key, key)

    assert [values.find("ada", key) for key in (1, 2, 3)] == [None, 2, 3]
    assert (values.find("bob", 1), values.find("eve", 1)) == (1, 1)
    values.drop("eve", 1)
    values.drop("eve", 1)
    assert values.find("eve", 1) is None
