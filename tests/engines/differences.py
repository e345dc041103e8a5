"""Tests marked `docker` that Podman cannot pass, each with the reason. `make test-engines` leaves them out on Podman.

A reason is a difference of the engine that docs/engines.md describes, or an assumption of the test about Docker.
"""

from collections.abc import Mapping

REFUSES_REMOVAL = "Podman refuses to remove a container or network that other containers use"
RESTARTS = "Podman restarts a pause container with the container that joins it"
BY_NAME = "Podman mounts host paths by name, as it ignores options of anonymous volumes"
AT_CREATE = "Podman checks the value when the container is created, not when it starts"
DRIVERS = "Podman has no log driver of Docker but json-file, journald and none"
REGISTRY = "Podman requires https of a registry at 127.0.0.1 unless registries.conf names its port"
SECOND_ENGINE = "the test starts a Docker engine of its own"
STAMPS = "Podman before 5.8 cuts the time stamps of lines to whole seconds"
WORDS = "the test expects a text or value of Docker"

_PARTS, _NETWORKS, _MOUNTS = "test_docker_parts.py::", "test_docker_networks.py::", "test_docker_mounts.py::"
_FAILED_START = "test_docker.py::test_a_failed_start_has_its_exit_code_and_the_engines_text"

#: By the beginning of the test's name, without `tests/compute/`.
ON_PODMAN: Mapping[str, str] = {
    f"{_FAILED_START}[absolute]": WORDS,
    f"{_FAILED_START}[user]": WORDS,
    f"{_FAILED_START}[ulimit]": AT_CREATE,
    f"{_FAILED_START}[device]": AT_CREATE,
    "test_docker.py::test_a_paused_container_can_be_killed": "Podman reports the exit code -1 then",
    "test_docker.py::test_a_long_log_is_read_in_chunks_and_from_any_position": STAMPS,
    "test_docker.py::test_a_container_has_what_was_requested": WORDS,
    "test_docker.py::test_secret_options_reach_the_log_driver": DRIVERS,
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
    f"{_MOUNTS}test_a_folder_replaced_by_a_link_after_the_check": BY_NAME,
    f"{_MOUNTS}test_a_file_that_cannot_be_written_fails_the_start[members0]": (
        "Podman writes files into a container with a read-only root"
    ),
    f"{_MOUNTS}test_replacing_paths_during_starts": BY_NAME,
    f"{_MOUNTS}test_a_container_created_before_a_restart": BY_NAME,
    f"{_MOUNTS}test_folders_stay_open_until_the_start": BY_NAME,
    f"{_MOUNTS}test_a_host_path_that_is_created_is_reported": BY_NAME,
    "test_docker_pull.py::": REGISTRY,
    "test_docker_parts_away.py::": SECOND_ENGINE,
}
