"""SageMaker's instance types as resources."""

import pytest

from batchq.api.sagemaker.create_job import resources_of


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ml.m5.large", (2000, 8192, 0)),
        ("ml.c5.18xlarge", (72000, 147456, 0)),
        ("ml.r5d.xlarge", (4000, 32768, 0)),
        ("ml.t3.medium", (2000, 4096, 0)),
        ("ml.g4dn.xlarge", (4000, 16384, 1)),
        ("batchq.cpu.4u8g", (4000, 8192, 0)),
        ("batchq.cpu.0.25u0.5g", (250, 512, 0)),
    ],
)
def test_a_type_is_a_size(name, size):
    found = resources_of(name)

    assert (found.millicpus, found.memory_mib, found.gpus) == size


@pytest.mark.parametrize(
    "name",
    ["", "m5.large", "ml.m5", "ml.m5.huge", "ml.x1.large", "batchq.cpu.0u1g", "batchq.cpu.1u0g", "ml.m5.large\n"],
)
def test_any_other_name_is_not_known(name):
    assert resources_of(name) is None
