"""The memory that a rerun of a job requests that was killed for a lack of memory."""

import pytest

from batchq.domain.memory_shortage import MemoryShortage, memory_shortage
from tests.domain.lives import after, exited, running, terminate

MIB = 2**20


@pytest.mark.parametrize(
    ("requested", "peak", "most", "expected"),
    [
        (64, None, None, 128),
        (4, None, None, 64),
        (300, 300, None, 640),
        (512, 512, None, 1024),
        (600, 600, None, 2048),
        (1024, 1000, None, 2048),
        (1500, 1500, None, 3072),
        (1024, 4096, None, 6144),
        (16384, 16384, 24576, 24576),
        (16384, 16384, 22000, 21504),
        (300, 300, 400, 384),
        (24576, 24576, 24576, None),
        (24576, 24576, 25000, None),
    ],
)
def test_the_next_request_is_a_readable_size_that_a_machine_has(requested, peak, most, expected):
    shortage = MemoryShortage(requested=requested, peak=None if peak is None else peak * MIB, is_reported=True)

    found = shortage.next_request(most=most)

    assert found == expected


@pytest.mark.parametrize(
    ("events", "is_reported"),
    [
        ([exited(137, out_of_memory=True)], True),
        ([exited(137)], False),
        ([exited(1)], None),
        ([exited(137, host_lost=True)], None),
        ([terminate(), exited(137)], None),
    ],
    ids=["reported", "killed by others than batchq", "failed by itself", "lost with its host", "terminated"],
)
def test_a_job_that_batchq_did_not_kill_likely_lacked_memory(events, is_reported):
    shortage = memory_shortage(after(running(), *events))

    assert (None if shortage is None else shortage.is_reported) == is_reported
