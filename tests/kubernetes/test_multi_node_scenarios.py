"""The scenarios of multi-node jobs on Kubernetes: on the model of the API server, and on a cluster."""

import pytest

from tests.scenarios.test_multi_node_jobs import *  # noqa: F403 - each scenario is written once

pytestmark = pytest.mark.exhaustive

# These need the room of one machine, which has two cores here.
del test_a_multi_node_job_is_placed_completely_or_not  # noqa: F821
del test_a_node_that_ignores_sigterm_holds_all_resources_until_it_is_killed  # noqa: F821
