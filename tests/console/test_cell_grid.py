"""Grids of the children of an array and of the jobs of a group."""

import re
from datetime import timedelta

from batchq.api.console.cell_grid import MAX_CELLS, children_grid, members_grid
from batchq.api.console.job_words import array_parts, running_children
from batchq.domain.enums import Status
from batchq.domain.job import ArrayState
from batchq.domain.lifecycle.arrays import size
from batchq.ports.jobs import ChildRun
from tests.support import builders
from tests.support.builders import NOON


def array(count, *counts, status=Status.PENDING):
    return builders.job(array_size=count, status=status, array_state=ArrayState(counts=counts))


def test_each_child_of_a_small_array_is_a_cell_with_its_result():
    parent = array(30)
    run = builders.attempt(started_at=NOON, stopped_at=NOON + timedelta(seconds=12), exit_code=3)
    times = {"started_at": NOON, "stopped_at": NOON + timedelta(seconds=12)}
    failed = builders.child(parent, 27, status=Status.FAILED, attempts=(run,), **times)
    runs = [ChildRun(Status.SUCCEEDED, 0, 27), ChildRun(Status.FAILED, 27, 28), ChildRun(Status.PENDING, 28, 30)]

    grid = children_grid(runs, [failed], size=size(parent), array=parent.id)

    cells = re.findall(r'<title>([^<]*)</title><rect class="shape-(\w+)" x="(\d+)" y="(\d+)"', grid)
    assert cells[26:29] == [
        ("Child 26: SUCCEEDED", "SUCCEEDED", "1", "1"),
        ("Child 27: FAILED, exit code 3, 12 s", "FAILED", "2", "1"),
        ("Child 28: PENDING", "PENDING", "3", "1"),
    ]
    assert re.findall(r'state=\w+">(\w+ \d+)</a></li>', grid) == ["PENDING 2", "SUCCEEDED 27", "FAILED 1"]
    assert "<span>0</span><span>25</span></div>" in grid


def test_a_large_array_has_a_hover_text_for_each_range():
    runs = [ChildRun(Status.FAILED, 0, 1), ChildRun(Status.RUNNING, 1, 500)]
    grid = children_grid(runs, [], size=500, array=builders.job_id(1))
    assert re.findall(r"<title>([^<]*)</title>", grid) == ["0: FAILED", "1 to 499: RUNNING"]
    assert f'data-size="500" data-job="{builders.job_id(1)}"' in grid


def test_a_group_has_a_cell_for_each_job_in_its_order():
    jobs = [builders.job(name=f"fit-{at}", status=status) for at, status in enumerate((Status.RUNNING, Status.PENDING))]
    assert re.findall(r"<title>([^<]*)</title>", members_grid(jobs)) == ["fit-0: RUNNING", "fit-1: PENDING"]

    many = members_grid(jobs * MAX_CELLS)

    assert "data-job" not in many
    assert many.count("<path") == 2  # more ranges than have hover texts


def test_an_array_with_running_children_is_alive_though_it_is_pending():
    alive = array(20, (Status.RUNNABLE, 3), (Status.STARTING, 1), (Status.RUNNING, 4))
    assert running_children(alive) == 5
    assert array_parts(alive) == [("RUNNING", 4), ("STARTING", 1), ("RUNNABLE", 3), ("SUBMITTED", 12)]
    ended = array(4, (Status.RUNNING, 4), status=Status.FAILED)
    assert (running_children(ended), array_parts(ended)) == (0, [])
    assert array_parts(builders.job(status=Status.RUNNING)) == []
