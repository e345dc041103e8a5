"""A limit on what one SubmitJob passes until its container runs."""

import pytest

from tests.house.walk import walks

MAX_FILES = 89  # measured 89
MAX_RETURNS = 835  # measured 812 on a loaded machine


@pytest.mark.exhaustive
async def test_a_job_passes_few_files_and_functions_until_its_container_runs(tmp_path):
    shortest = min(await walks(tmp_path), key=lambda returns: returns.total())

    assert len({path for path, _ in shortest}) <= MAX_FILES
    assert shortest.total() <= MAX_RETURNS
