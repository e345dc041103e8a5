"""Generated requests for /openapi.json: no 5xx, no hang, described responses, and nothing invalid accepted."""

import re

import pytest

from tests.fuzz.fuzz import forwarded, fuzz, fuzzed_server

EXPECTED = "every user who can connect"
PROBLEM = re.compile(r"^\S+ \S+ (?:WARNING|ERROR|CRITICAL) .*|^ *Traceback.*", re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.fault("IN01")
@pytest.mark.timeout(600)
def test_no_generated_request_causes_a_server_error(tmp_path):
    with fuzzed_server(tmp_path / "data") as (service, valid_values):
        found = fuzz(service, valid_values, examples=10, seed=20261121)
        health = service.health()

    assert found.returncode == 0, found.stdout
    assert health["status"] == "ok"
    assert PROBLEM.findall(service.log.read_text()) == []


@pytest.mark.exhaustive
@pytest.mark.fault("IN01")
@pytest.mark.timeout(600)
def test_no_generated_request_at_the_unix_socket_causes_a_server_error(tmp_path):
    path = tmp_path / "batchq.sock"
    with fuzzed_server(tmp_path / "data", "--socket", str(path)) as (service, valid_values), forwarded(path) as url:
        found = fuzz(service, valid_values, examples=5, seed=20261123, phases="fuzzing", url=url, paths="^/v1/batchq/")
        health = service.health()

    assert found.returncode == 0, found.stdout
    assert health["status"] == "ok"
    assert [line for line in PROBLEM.findall(service.log.read_text()) if EXPECTED not in line] == []
