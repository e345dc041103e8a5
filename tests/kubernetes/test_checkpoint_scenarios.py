"""The scenarios of checkpoints on a cluster, with a directory that the server and the nodes share."""

import pytest

from tests.scenarios.test_final_checkpoints import *  # noqa: F403 - each scenario is written once

# The containers of the model write no checkpoints.
pytestmark = [pytest.mark.kubernetes, pytest.mark.parametrize("world", ["cluster"], indirect=True)]

# The clock of these is virtual.
del test_a_later_container_of_a_task_does_not_continue_from_a_checkpoint_that_is_being_written  # noqa: F821
del test_a_disk_that_hangs_delays_each_signal_and_the_end_by_one_read  # noqa: F821
