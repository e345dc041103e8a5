"""Whatever schemathesis makes up of /openapi.json: no 5xx, no hang, answers as described, nothing bad taken."""

import re

import pytest

from tests.fuzz.fuzz import fuzz, grounded

TROUBLE = re.compile(r"^\S+ \S+ (?:WARNING|ERROR|CRITICAL) .*|^ *Traceback.*", re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.fault("IN01")
@pytest.mark.timeout(300)
def test_no_request_that_can_be_made_up_breaks_the_server(tmp_path):
    with grounded(tmp_path / "data") as (service, there):
        found = fuzz(service, there, examples=10, seed=20261121)
        health = service.health()

    assert found.returncode == 0, found.stdout
    assert health["status"] == "ok"
    assert TROUBLE.findall(service.log.read_text()) == []
