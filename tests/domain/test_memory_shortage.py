"""The memory that a rerun of a job requests that was killed for a lack of memory."""

import pytest

from batchq.domain.memory_shortage import MemoryShortage

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
    shortage = MemoryShortage(requested=requested, peak=None if peak is None else peak * MIB)

    found = shortage.next_request(most=most)

    assert found == expected
