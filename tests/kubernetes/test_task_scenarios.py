"""The scenarios of tasks on Kubernetes: on the model of the API server, and on a cluster."""

import pytest

from tests.scenarios.test_tasks import *  # noqa: F403 - each scenario is written once

pytestmark = pytest.mark.exhaustive
