"""How many pages are rendered at a time, by counts: for one user, and in one iteration of the event loop."""

import asyncio
from itertools import count, groupby

import pytest

from batchq.api.console import rendering
from batchq.api.console.rendering import Renderer
from batchq.compute.simulated.script import Script

pytestmark = pytest.mark.fault("SE71")
PAGES, SLICES = 12, 20


@pytest.fixture(autouse=True)
def slices_of_one_part(monkeypatch):
    monkeypatch.setattr(rendering, "SLICE", 0.0)
    monkeypatch.setattr(rendering, "PARTS_AT_ONCE", 1)


async def test_one_page_continues_in_each_iteration_of_the_event_loop():
    renderer, iterations, continued, is_over = Renderer(), [0], [], False

    async def count_iterations():
        while not is_over:
            iterations[0] += 1
            await asyncio.sleep(0)

    def page():
        yield ""  # the first slice, which the request itself begins
        for _ in range(SLICES):
            continued.append(iterations[0])
            yield ""

    counting = asyncio.create_task(count_iterations())
    await asyncio.gather(*(renderer.render(page(), user=f"user-{number}") for number in range(PAGES)))
    is_over = True
    await counting

    assert len(continued) == PAGES * SLICES
    assert len(set(continued)) == len(continued), "two pages continued in one iteration"


async def test_one_page_of_a_user_is_rendered_at_a_time_and_those_of_others_meanwhile(browser, monkeypatch):
    job_id = await browser.run(until="SUCCEEDED", script=Script(seconds=0, output=("line",) * 200))
    renderers, slices, numbers, original = set(), [], count(), Renderer.render

    async def render(self, parts, *, user):
        def recorded():
            number = next(numbers)
            for part in parts:
                slices.append((user, number))
                yield part

        renderers.add(self)
        return await original(self, recorded(), user=user)

    monkeypatch.setattr(Renderer, "render", render)
    await asyncio.gather(*(browser.open(f"/ui/jobs/{job_id}/log") for _ in range(4)))

    (renderer,) = renderers
    assert len(list(groupby(slices))) == 4, "two pages of a user are rendered at a time"
    (user,) = {user for user, _ in slices}

    slices.clear()
    names = [user, "another"]
    await asyncio.gather(*(renderer.render(iter(["x"] * SLICES), user=name) for name in names))
    assert len(list(groupby(slices))) > SLICES
