"""`batchq doctor`: its lines, its status, and one real server and engine."""

import json
import subprocess

import pytest

from batchq.cli.main import main
from tests.service.waiting import reaches, register
from tests.support.fake_engine import VERSION, ScriptedReplies
from tests.support.fake_engine import engine as fake_engine
from tests.support.kubernetes import kubeconfig
from tests.support.service import BATCHQ, serving

NO_SERVER = "http://127.0.0.1:9"  # the port of `discard`, at which no program listens
RUNC_INFO = {
    "ServerVersion": "28.5.2",
    "DockerRootDir": "/var/lib/docker",
    "LiveRestoreEnabled": True,
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {"path": "runc"}, "crun": {"path": "/usr/bin/crun"}},
}


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")


def test_a_problem_is_a_line_and_exit_status_1(no_engine, tmp_path, capsys):
    status = main(["doctor", "--data", str(tmp_path / "none"), "--url", NO_SERVER])

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert [line.split()[0] for line in lines] == ["problem", "ok", "ok", "ok"]
    assert lines[0].split()[1] == "engine:"
    assert list(tmp_path.iterdir()) == []


def test_docker_and_the_cluster_of_one_server_are_both_examined(no_engine, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("BATCHQ_DOCKER", "true")
    monkeypatch.setenv("BATCHQ_KUBERNETES", kubeconfig(tmp_path, "http://127.0.0.1:9"))

    assert main(["doctor", "--data", str(tmp_path / "none"), "--url", NO_SERVER]) == 1

    docker, cluster = [line for line in capsys.readouterr().out.splitlines() if line.startswith("problem  engine:")]
    assert "none.sock does not exist" in docker
    assert "no process listens at http://127.0.0.1:9" in cluster


@pytest.mark.parametrize(
    ("selected", "cgroup", "recommended"), [(None, "2", True), ("crun", "2", False), (None, "1", False)]
)
def test_crun_is_recommended_where_it_starts_unless_the_settings_select_it(
    selected, cgroup, recommended, *, tmp_path, capsys, monkeypatch
):
    if selected:
        monkeypatch.setenv("BATCHQ_CONTAINER_RUNTIME", selected)
    info = RUNC_INFO | {"CgroupVersion": cgroup}
    with fake_engine(tmp_path, ScriptedReplies({"GET /info": [(200, info)]}, version=VERSION)) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        main(["doctor", "--data", str(tmp_path / "none"), "--url", NO_SERVER])

    assert ("--container-runtime crun" in capsys.readouterr().out) is recommended


def test_the_findings_are_printed_as_json(no_engine, tmp_path, capsys):
    main(["doctor", "--data", str(tmp_path), "--url", NO_SERVER, "-o", "json"])

    found = json.loads(capsys.readouterr().out)
    assert {"level", "component", "message", "advice"} == found[0].keys()
    assert (found[0]["level"], found[0]["component"]) == ("problem", "engine")


def test_an_invalid_url_is_reported_in_one_line(tmp_path, capsys):
    assert main(["doctor", "--data", str(tmp_path), "--url", "somewhere"]) == 2

    assert capsys.readouterr().err == "batchq: somewhere is not the http://, https:// or unix:///PATH URL of a server\n"


@pytest.mark.process
def test_a_simulated_server_has_no_problem_without_an_engine(no_engine, tmp_path):
    with serving(tmp_path / "data", "--runtime", "simulated") as service:
        status, lines = doctor(service)

    assert status == 0, lines
    assert any(f"in use by a server (pid {service.process.pid})" in line for line in lines)
    assert any(f"responds at {service.url}: ok" in line for line in lines)


@pytest.mark.docker
def test_a_server_with_docker_and_its_job_have_no_problem(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        register(batch, "runs", "sleep", "600")
        job = batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"]
        reaches(batch, job, "RUNNING")

        status, lines = doctor(service)

        batch.terminate_job(jobId=job, reason="seen")
        reaches(batch, job, "FAILED")
    assert status == 0, lines
    assert any("jobs: 1 running, none stuck" in line for line in lines)
    assert any("containers: 1 of this instance exist" in line for line in lines)
    service.remove_containers()


def doctor(service):
    """Its status and its lines, as a command of its own."""
    words = [BATCHQ, "doctor", "--data", service.data, "--url", service.url]
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()
