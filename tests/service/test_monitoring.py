"""A real server as Prometheus and a supervisor see it."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from shutil import which

import pytest
from prometheus_client.parser import text_string_to_metric_families

from batchq.api.native.long_polls import MAX_WAIT
from batchq.compute.simulated.script import Script
from tests.service.job_queue import submit_script
from tests.service.test_keys import Keys
from tests.service.waiting import register, until
from tests.support.service import reserved, serving_forked

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv" / "tools" / "usr" / "bin"


def get(url, **headers):
    """The status and the text of a response."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text):
    """The samples of a scrape by name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def gauge(service, name):
    return samples(get(f"{service.url}/metrics")[1])[name,]


def test_a_server_with_keys_shows_metrics_for_its_token_and_nothing_else(tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    with serving_forked(
        tmp_path / "data", "--runtime", "simulated", "--auth", "sigv4", "--metrics-token-file", str(token)
    ) as service:
        batch = service.client(key=Keys(service.data).create())
        register(batch, "secret-definition", "true")
        job = batch.submit_job(jobName="secret-name", jobQueue="default", jobDefinition="secret-definition")["jobId"]
        until(lambda: batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "SUCCEEDED")
        bearer = {"Authorization": "Bearer s3cret"}

        assert get(f"{service.url}/livez") == get(f"{service.url}/readyz") == (200, '{"status":"ok"}')
        assert get(f"{service.url}/metrics")[0] == 403
        assert get(f"{service.url}/v1/batchq/jobs/{job}/history", **bearer)[0] == 403
        status, text = get(f"{service.url}/metrics", **bearer)

        assert status == 200
        assert samples(text)["batchq_jobs_finished_total", ("outcome", "succeeded"), ("queue", "default")] == 1
        assert not [name for name in ("secret", job) if name in text]


def test_a_request_that_waits_for_events_is_a_watcher_until_it_is_answered(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service, ThreadPoolExecutor(1) as pool:
        reader = pool.submit(get, f"{service.url}/v1/batchq/events?after=0&wait=20")

        until(lambda: gauge(service, "batchq_watchers") == 1)
        submit_script(service, Script(seconds=0))

        assert reader.result()[0] == 200
        until(lambda: gauge(service, "batchq_watchers") == 0)


def test_waiting_requests_end_soon_after_their_client_has_disconnected(tmp_path):
    with (
        serving_forked(tmp_path / "data", "--runtime", "simulated", "--stop-grace", "600") as service,
        ExitStack() as readers,
    ):
        address = urllib.parse.urlsplit(service.url)
        job = submit_script(service, Script(seconds=None, on_term=None, output=("ready",)))
        until(lambda: service.native(f"jobs/{job}/log")[1]["lines"])
        position = service.native(f"jobs/{job}/log")[1]["next"]
        for request in (
            "GET /v1/batchq/events?wait=20&jobStatuses=SUCCEEDED",
            f"GET /v1/batchq/jobs/{job}/log?wait=20&after={position}",
            f"POST /v2/training/jobs/{job}/cancel",
        ):
            reader = readers.enter_context(socket.create_connection((address.hostname, address.port)))
            head = f"{request} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
            reader.sendall(f"{head}Prefer: wait=60\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        until(lambda: gauge(service, "batchq_watchers") == 3)
        readers.close()
        disconnected = time.monotonic()

        until(lambda: gauge(service, "batchq_watchers") == 0)

        assert time.monotonic() - disconnected < MAX_WAIT / 2


def test_the_size_of_all_logs_grows_with_their_output(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        assert gauge(service, "batchq_logs_bytes") == 0

        submit_script(service, Script(seconds=0, output=("x" * 1000,)))

        until(lambda: gauge(service, "batchq_logs_bytes") > 1000)
        assert gauge(service, "batchq_feed_number") >= 5


def test_a_request_for_events_waits_for_the_given_time(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        began = time.monotonic()
        _, answer = service.native("events?wait=2")

        assert answer["events"] == []
        assert 2 <= time.monotonic() - began < 4


def program(name):
    found = which(name) or str(TOOLS / name)
    assert os.access(found, os.X_OK), f"{name} is missing: run .ci/tools"
    return found


@pytest.mark.docker
def test_a_real_prometheus_scrapes_it_and_accepts_the_rules_and_the_queries_of_the_dashboard(docker_service, tmp_path):
    batch = docker_service.client()
    register(batch, "true", "true")
    register(batch, "false", "false")
    for definition in ("true", "false"):
        batch.submit_job(jobName=definition, jobQueue="default", jobDefinition=definition)
    _, text = get(f"{docker_service.url}/metrics")
    promtool, rules = program("promtool"), str(ROOT / "docs" / "alerts.yml")
    subprocess.run([promtool, "check", "metrics"], input=text.encode(), check=True, capture_output=True)
    subprocess.run([promtool, "check", "rules", rules], check=True, capture_output=True)
    target = docker_service.url.removeprefix("http://")
    config = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [rules],
        "scrape_configs": [{"job_name": "batchq", "static_configs": [{"targets": [target]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    with reserved() as socket:
        address = f"127.0.0.1:{socket.getsockname()[1]}"
    prometheus = subprocess.Popen(
        [
            program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ended = {"succeeded": "1", "failed": "1"}
        until(lambda: queried(address, "batchq_jobs_finished_total", "outcome") == ended)
        assert queried(address, "up", "job") == {"batchq": "1"}
        assert queried(address, "batchq_engine_up", "job") == {"batchq": "1"}
        panels = json.loads((ROOT / "docs" / "grafana.json").read_text())["panels"]
        queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
        assert {get(query_url(address, query))[0] for query in queries} == {200}
    finally:
        prometheus.terminate()
        prometheus.wait(30)


def query_url(address, expression):
    return f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"


def queried(address, expression, label):
    """The values of an expression by one of its labels; empty until Prometheus answers."""
    try:
        status, text = get(query_url(address, expression))
    except OSError:
        return {}
    found = json.loads(text)["data"]["result"] if status == 200 else []
    return {series["metric"][label]: series["value"][1] for series in found}
