"""The scenarios of checkpoints on a cluster, with a directory that the server and the nodes share."""

import pytest

from tests.scenarios.test_final_checkpoints import *  # noqa: F403 - each scenario is written once

# The containers of the model write no checkpoints.
pytestmark = [pytest.mark.kubernetes, pytest.mark.parametrize("world", ["cluster"], indirect=True)]
