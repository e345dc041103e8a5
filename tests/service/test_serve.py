"""How `batchq serve` starts, refuses to start, and ends."""

import os
import signal
from contextlib import closing
from errno import EACCES
from pathlib import Path
from socket import socket
from tempfile import NamedTemporaryFile

import pytest

from batchq.cli import serve
from batchq.cli.main import main
from batchq.errors import StartImpossible
from batchq.settings import check_variables
from batchq.system import host
from tests.service.waiting import PATIENCE, reaches, register
from tests.support.certificates import Authority
from tests.support.service import ForkedProcess, Service, serving


def refused(*arguments, **environment):
    """The status and the one line of a start that cannot be."""
    with NamedTemporaryFile("r") as log:
        process = ForkedProcess(["serve", *map(str, arguments)], log=Path(log.name), **environment)
        with process.stdout:
            assert process.stdout.read() == ""
        status, errors = process.wait(PATIENCE), log.read()
    (line,) = [line for line in errors.splitlines() if line.startswith("batchq:")]
    assert "Traceback" not in errors
    return status, line


@pytest.fixture
def misused(capsys, monkeypatch):
    """As `refused`, for invalid flags and variables, in this process, since another one takes a second."""

    def accepted():
        raise AssertionError("the settings are accepted")

    def misused(*arguments, **environment):
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        try:
            status = main(["serve", *map(str, arguments)])
        except SystemExit as ended:
            status = ended.code
        output, errors = capsys.readouterr()
        assert (output, errors.count("\n")) == ("", 1)
        return status, errors

    monkeypatch.setattr(serve, "_open_standard_streams", accepted)
    return misused


def test_port_0_selects_a_free_port(tmp_path):
    with serving(tmp_path / "data", "--runtime", "simulated", "--port", "0") as service:
        assert service.health()["status"] == "ok"
        assert not service.url.endswith(":0")


@pytest.mark.smoke
def test_sigterm_ends_the_server_with_status_0(simulated_command):
    assert simulated_command.stop() == 0


def test_sigint_ends_the_server_with_status_0(simulated_command):
    simulated_command.process.send_signal(signal.SIGINT)

    assert simulated_command.process.wait(PATIENCE) == 0


def test_the_first_start_creates_an_environment_and_a_queue(shared):
    batch = shared.client()

    (queue,) = batch.describe_job_queues()["jobQueues"]
    (environment,) = batch.describe_compute_environments()["computeEnvironments"]

    assert (queue["jobQueueName"], queue["state"], queue["status"]) == ("default", "ENABLED", "VALID")
    assert (environment["computeEnvironmentName"], environment["status"]) == ("local", "VALID")
    assert environment["computeResources"]["maxvCpus"] == len(os.sched_getaffinity(0))


def test_another_address_without_authentication_must_be_confirmed(tmp_path):
    with serving(tmp_path / "data", "--host", "0.0.0.0", "--insecure-no-auth", "--runtime", "simulated") as service:
        assert service.url.startswith("http://0.0.0.0:")
        assert service.log.read_text().count("requests to 0.0.0.0 and their responses are not encrypted") == 1


@pytest.mark.fault("SE14")
def test_a_world_readable_tls_key_is_refused(tmp_path):
    files = Authority(tmp_path).issue()
    files.key.chmod(0o644)

    status, line = refused("--data", tmp_path / "data", *files.flags())

    assert status == 2
    assert f"chmod 600 {files.key}" in line
    assert not (tmp_path / "data").exists()


@pytest.mark.fault("SE14")
@pytest.mark.parametrize("flag", ["--secrets-file", "--metrics-token-file"])
def test_secrets_that_all_users_can_read_are_refused(tmp_path, flag):
    file = tmp_path / "secrets.json"
    file.write_text("{}")
    file.chmod(0o644)

    status, line = refused("--data", tmp_path / "data", flag, file)

    assert status == 2
    assert f"chmod 600 {file}" in line
    assert not (tmp_path / "data").exists()


@pytest.mark.fault("LC08")
def test_a_port_in_use_is_reported_in_one_line(tmp_path):
    with closing(socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, line = refused("--data", tmp_path, "--port", taken.getsockname()[1], "--runtime", "simulated")

    assert status == 1
    assert f"already in use by pid {os.getpid()} (" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("LC08")
@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        (["--account-id", "12"], {}, "account-id"),
        (["--stop-grac", "3"], {}, "--stop-grac"),
        (["--colour", "red"], {}, "--colour"),
        (["--runtime", "podman"], {}, "podman"),
        ([], {"BATCHQ_STOP_GRACEE": "3"}, "BATCHQ_STOP_GRACEE"),
        (["--volumes", "/ok:relative"], {}, "--volumes: relative is not an absolute path"),
        ([], {"BATCHQ_VOLUMES": "relative"}, "BATCHQ_VOLUMES: relative is not an absolute path"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(tmp_path, misused, flags, environment, named):
    status, line = misused("--data", tmp_path, "--port", 0, *flags, **environment)

    assert status == 2
    assert named in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("LC08", "SE13")
@pytest.mark.parametrize(
    ("flags", "environment", "named"),
    [
        (["--host", "0.0.0.0"], {}, "--insecure-no-auth"),
        (["--host", "batch.invalid", "--insecure-no-auth"], {}, "batch.invalid"),
        (["--host", "192.0.2.1", "--insecure-no-auth"], {}, "address; set --host to an address of this machine"),
        (["--tls-cert", "/tmp"], {}, "--tls-cert and --tls-key"),
        (["--tls-key", "/tmp"], {}, "--tls-cert and --tls-key"),
        ([], {"DOCKER_HOST": "bogus"}, "DOCKER_HOST"),
        ([], {"DOCKER_HOST": "tcp://127.0.0.1:port"}, "DOCKER_HOST"),
    ],
)
def test_an_address_that_cannot_be_used_is_reported_in_one_line(tmp_path, flags, environment, named):
    status, line = refused("--data", tmp_path, "--port", 0, *flags, **environment)

    assert status == 2
    assert named in line
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_requires_root_is_refused_with_another_flag(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(EACCES, "Permission denied (while attempting to bind on address ('127.0.0.1', 80))")

    monkeypatch.setattr(host, "create_server", refuse)

    with pytest.raises(
        StartImpossible, match=r"Permission denied; ports below 1024 require root: set another with --port"
    ):
        host.listen("127.0.0.1", 80)


@pytest.mark.fault("DB12")
def test_a_second_server_of_the_same_data_names_the_first(shared):
    status, line = refused("--data", shared.data, "--port", 0, "--runtime", "simulated")

    assert status == 1
    assert line.endswith(f"another batchq server uses {shared.data} (pid {shared.process.pid}, {shared.url})")


def test_secrets_and_the_commands_own_variable_are_no_settings():
    check_variables(["BATCHQ_SECRET_DB", "BATCHQ_URL", "BATCHQ_STOP_GRACE", "PATH"])


def test_an_invalid_database_is_reported_in_one_line(tmp_path):
    (tmp_path / "batchq.db").write_bytes(b"no database at all, but long enough to be read as one" * 100)

    status, _ = refused("--data", tmp_path, "--port", 0, "--runtime", "simulated")

    assert status == 1


@pytest.mark.fault("EN23")
def test_without_an_engine_the_server_runs_and_jobs_wait(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/missing.sock")
    with serving(tmp_path / "data") as service:
        batch = service.client()
        register(batch, "waits", "true")

        job = batch.submit_job(jobName="waits", jobQueue="default", jobDefinition="waits")["jobId"]

        assert service.health()["status"] == "degraded"
        assert service.health()["engine"] != "ok"
        assert reaches(batch, job, "RUNNABLE")["attempts"] == []


def test_arns_have_the_region_of_the_caller_and_any_region_is_accepted(shared):
    batch = shared.client()
    (queue,) = batch.describe_job_queues()["jobQueues"]
    assert queue["jobQueueArn"] == "arn:aws:batch:eu-central-1:123456789012:job-queue/default"
    elsewhere = queue["jobQueueArn"].replace("eu-central-1", "us-west-2")

    assert len(batch.describe_job_queues(jobQueues=[elsewhere])["jobQueues"]) == 1


def test_simulated_jobs_run_and_are_known_to_the_next_server(simulated: Service):
    batch = simulated.client()
    register(batch, "plays", "anything")
    job = batch.submit_job(jobName="plays", jobQueue="default", jobDefinition="plays")["jobId"]
    done = reaches(batch, job, "SUCCEEDED")
    simulated.stop()

    simulated.start()

    assert simulated.client().describe_jobs(jobs=[job])["jobs"] == [done]


@pytest.mark.parametrize(("level", "ends", "changes"), [("info", 1, 0), ("debug", 1, 5), ("warning", 0, 0)])
def test_a_job_is_one_line_of_the_log_at_info(tmp_path, level, ends, changes):
    with serving(tmp_path / "data", "--runtime", "simulated", "--log-level", level) as service:
        batch = service.client()
        register(batch, "fast")
        job = batch.submit_job(jobName="a-job", jobQueue="default", jobDefinition="fast")["jobId"]
        reaches(batch, job, "SUCCEEDED")

    lines = [line for line in service.log.read_text().splitlines() if job in line]
    assert len([line for line in lines if f" INFO job {job}: SUCCEEDED queue=default name=a-job " in line]) == ends
    assert len([line for line in lines if f" DEBUG job {job}: " in line]) == changes
    assert len(lines) == ends + changes
