"""Generated requests for /openapi.json: no 5xx, no hang, described responses, and nothing invalid accepted."""

import re

import pytest

from tests.fuzz.fuzz import fuzz, fuzzed_server

TROUBLE = re.compile(r"^\S+ \S+ (?:WARNING|ERROR|CRITICAL) .*|^ *Traceback.*", re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.fault("IN01")
@pytest.mark.timeout(300)
def test_no_generated_request_causes_a_server_error(tmp_path):
    with fuzzed_server(tmp_path / "data") as (service, valid_values):
        found = fuzz(service, valid_values, examples=10, seed=20261121)
        health = service.health()

    assert found.returncode == 0, found.stdout
    assert health["status"] == "ok"
    assert TROUBLE.findall(service.log.read_text()) == []
