"""Tests marked `docker` that other engines cannot pass, with the reasons. `make test-engines` leaves them out there.

A reason is a difference of the engine that docs/engines.md describes, or an assumption of the test about this machine's
Docker. Keys are the beginnings of names of tests.
"""

from collections.abc import Mapping

REFUSES_REMOVAL = "Podman refuses to remove a container or network that other containers use"
RESTARTS = "Podman restarts a pause container with the container that joins it"
BY_NAME = (
    "host paths are mounted by name on an engine with a mount namespace of its own, and on Podman: none is created"
)
AT_CREATE = "Podman checks the value when the container is created, not when it starts"
DRIVERS = "Podman has no log driver of Docker but json-file, journald and none"
REGISTRY = "Podman requires https of a registry at 127.0.0.1 unless registries.conf names its port"
SECOND_ENGINE = "the test starts a Docker engine of its own"
STAMPS = "Podman before 5.8 cuts the time stamps of lines to whole seconds"
WORDS = "the test expects a text or value of Docker"

_COMPUTE, _CONTRACT, _SERVICE = "tests/compute/test_docker", "tests/contracts/test_runtime.py::", "tests/service/test_"
_CLIENTS = "tests/clients/test_"
_PARTS, _NETWORKS, _MOUNTS = f"{_COMPUTE}_parts.py::", f"{_COMPUTE}_networks.py::", f"{_COMPUTE}_mounts.py::"
_FAILED_START = f"{_COMPUTE}.py::test_a_failed_start_has_its_exit_code_and_the_engines_text"

#: On an engine with a mount namespace of its own, as each engine of `make test-engines`, rootless Docker, and Podman.
ON_ANOTHER_ROOT: Mapping[str, str] = {
    f"{_MOUNTS}test_a_folder_replaced_by_a_link_after_the_check": BY_NAME,
    f"{_MOUNTS}test_replacing_paths_during_starts": BY_NAME,
    f"{_MOUNTS}test_a_container_created_before_a_restart": BY_NAME,
    f"{_MOUNTS}test_folders_stay_open_until_the_start": BY_NAME,
    f"{_MOUNTS}test_a_host_path_that_is_created_is_reported": BY_NAME,
    f"{_COMPUTE}.py::test_a_missing_host_path_of_a_mount_that_creates_it_is_mounted": BY_NAME,
    f"{_SERVICE}job_authors.py::": BY_NAME,
    f"{_SERVICE}job_policy.py::test_a_path_replaced_by_a_link_after_the_registration": BY_NAME,
    f"{_SERVICE}job_policy.py::test_jobs_queued_under_an_older_policy": BY_NAME,
    f"{_SERVICE}run_from_the_shell.py::test_a_missing_host_path_fails_the_job": BY_NAME,
    f"{_CLIENTS}toil.py::": BY_NAME,
    f"{_CLIENTS}sagemaker.py::test_the_cli_stops_a_trainer_that_writes_a_checkpoint_at_sigterm": BY_NAME,
    f"{_CLIENTS}sagemaker.py::test_inputs_and_the_model_are_folders_below_the_s3_root": BY_NAME,
    f"{_CLIENTS}sagemaker.py::test_airflow_trains_reads_the_log_and_reports_a_failure": BY_NAME,
    f"{_CLIENTS}sagemaker_toolkit.py::test_the_toolkit_trains_on_two_instances": BY_NAME,
    f"{_CLIENTS}sagemaker_toolkit.py::test_the_toolkit_states_the_failure_of_the_script": BY_NAME,
    f"{_CLIENTS}sagemaker_toolkit.py::test_a_missing_input_fails_the_job": BY_NAME,
}
#: Rootless engines on a machine with cgroup v1, and in namespaces without delegated controllers.
ROOTLESS: Mapping[str, str] = {f"{_CONTRACT}test_lack_of_memory_is_reported": "a rootless engine has no limits there"}
ON_PODMAN_4: Mapping[str, str] = {
    f"{_CONTRACT}test_lack_of_memory_is_reported": "Podman 4.3 does not report that a container lacked memory",
}
ON_PODMAN: Mapping[str, str] = {
    f"{_FAILED_START}[absolute]": WORDS,
    f"{_FAILED_START}[user]": WORDS,
    f"{_FAILED_START}[ulimit]": AT_CREATE,
    f"{_FAILED_START}[device]": AT_CREATE,
    f"{_COMPUTE}.py::test_a_paused_container_can_be_killed": "Podman reports the exit code -1 then",
    f"{_COMPUTE}.py::test_a_long_log_is_read_in_chunks_and_from_any_position": STAMPS,
    f"{_COMPUTE}.py::test_a_container_has_what_was_requested": WORDS,
    f"{_COMPUTE}.py::test_secret_options_reach_the_log_driver": DRIVERS,
    f"{_PARTS}test_a_pause_container_has_no_rights_and_no_job": WORDS,
    f"{_PARTS}test_without_its_pause_container_a_container_has_no_address": REFUSES_REMOVAL,
    f"{_PARTS}test_a_container_whose_shared_parts_were_removed": REFUSES_REMOVAL,
    f"{_PARTS}test_a_node_of_one_container_whose_network_was_removed": REFUSES_REMOVAL,
    f"{_PARTS}test_a_running_container_is_never_created_again": REFUSES_REMOVAL,
    f"{_PARTS}test_secret_options_of_a_log_driver": DRIVERS,
    f"{_PARTS}test_the_reported_address_is_that_of_the_container": WORDS,
    f"{_NETWORKS}test_names_are_resolved_as_in_other_containers": WORDS,
    f"{_NETWORKS}test_a_later_job_gets_a_new_pause_container": RESTARTS,
    f"{_NETWORKS}test_a_started_container_is_never_created_again": REFUSES_REMOVAL,
    f"{_NETWORKS}test_a_dead_pause_container_is_replaced_when_it_is_needed": RESTARTS,
    f"{_MOUNTS}test_a_file_that_cannot_be_written_fails_the_start[members0]": (
        "Podman writes files into a container with a read-only root"
    ),
    f"{_CONTRACT}test_an_engine_has_one_id": "Podman reports no ID",
    f"{_CONTRACT}test_a_container_whose_network_was_removed_before_its_start": REFUSES_REMOVAL,
    f"{_CONTRACT}test_a_running_container_survives_its_pause_container": REFUSES_REMOVAL,
    f"{_CONTRACT}test_only_containers_that_run_are_measured": "Podman keeps the cgroup of a container that has ended",
    f"{_CONTRACT}test_the_output_is_read_in_order": STAMPS,
    f"{_CONTRACT}test_a_log_is_read_from_a_position": STAMPS,
    f"{_COMPUTE}_pull.py::": REGISTRY,
    f"{_COMPUTE}_parts_away.py::": SECOND_ENGINE,
}
