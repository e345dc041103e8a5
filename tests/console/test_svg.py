"""Pictures as SVG."""

import random
import re

from hypothesis import given
from hypothesis import strategies as any_

from batchq.api.console.svg import GraphNode, array_grid, graph, grid_columns
from batchq.domain.enums import Status
from batchq.ports.jobs import ChildRun
from tests.console.world import HOSTILE

JOB = "8f2c51a7-0000-4000-8000-000000000000"


def runs_of(statuses):
    return [ChildRun(status, index, index + 1) for index, status in enumerate(statuses)]


def cells(picture, columns):
    """The status of each cell that is drawn, by index."""
    found = {}
    for status, path in re.findall(r'<path class="shape-(\w+)" d="M0 .5([^"]*)"/>', picture):
        x, y = 0, 0
        for dx, dy, width in re.findall(r"m(-?\d+) (-?\d+)h(\d+)", path):
            x, y = x + int(dx), y + int(dy)
            found |= {y * columns + x + step: status for step in range(int(width))}
            x += int(width)
    return found


def grid(runs, size):
    return array_grid(runs, size=size, job_id=JOB, label="Children")


@given(any_.lists(any_.sampled_from(Status), min_size=1, max_size=300))
def test_each_child_has_a_cell_of_its_status(statuses):
    size = len(statuses)
    drawn = cells(grid(runs_of(statuses), size), grid_columns(size))
    assert drawn == {index: status.value for index, status in enumerate(statuses)}


def test_children_that_do_not_exist_have_no_cell():
    drawn = cells(grid([ChildRun(Status.FAILED, 5, 7)], 20), grid_columns(20))
    assert drawn == {5: "FAILED", 6: "FAILED"}


def test_the_grid_of_a_typical_array_is_small():
    runs = [
        ChildRun(Status.SUCCEEDED, 0, 5200),
        ChildRun(Status.FAILED, 5200, 5203),
        ChildRun(Status.SUCCEEDED, 5203, 6000),
        ChildRun(Status.RUNNING, 6000, 6040),
        ChildRun(Status.RUNNABLE, 6040, 10_000),
    ]
    assert len(grid(runs, 10_000)) < 2000


def test_the_grid_of_10_000_random_statuses_has_less_than_100_kb():
    generator = random.Random(1)
    assert len(grid(runs_of(generator.choices(list(Status), k=10_000)), 10_000)) < 100_000


def test_texts_are_escaped_in_all_pictures():
    node = GraphNode(job_id=HOSTILE, name=HOSTILE, status=Status.RUNNING, path="/ui/jobs/x", level=1)
    drawn = graph([node], [], HOSTILE)
    drawn += array_grid([], size=1, job_id=JOB, label=HOSTILE)
    assert "<script" not in drawn
    assert not re.search(r'="[^"]*"[a-z]', drawn)
    assert "\u202e" not in drawn


def test_an_edge_leads_from_the_job_that_is_waited_for_to_the_one_that_waits():
    nodes = [
        GraphNode(job_id=name, name=name, status=Status.PENDING, path="", level=level)
        for name, level in (("here", 0), ("before", -1), ("after", 1))
    ]
    drawn = graph(nodes, [("before", "here"), ("here", "after"), ("unknown", "here")], "Dependencies")
    edges = re.findall(r'd="M(\d+) \d+C\d+ \d+ \d+ \d+ (\d+) \d+"', drawn)
    assert [int(start) < int(end) for start, end in edges] == [True, True]


def test_a_job_that_is_not_visible_is_no_link():
    node = GraphNode(job_id="hidden", name="8f2c51a7", status=None, path="/ui/jobs/hidden", level=-1)
    drawn = graph([node], [], "Dependencies")
    assert "<a " not in drawn
    assert "not visible" in drawn
