"""The scenarios that do not run on Kubernetes, each with the reason.

A name is a file of tests/scenarios without `.py`, or `file::test`, or `file::test[part]`, where `part` is one of the
test's parameters.
"""

from tests.kubernetes.conftest import CLUSTER_WORLD, MODEL

NO_SHARED_NETWORK = "Pods are on the network of the cluster, and batchq creates none."
NO_EXEC = "batchq refuses commands in pods, and names the command of kubectl."
NO_PULL = "The node pulls the image during the start, so there is no call of batchq to hold or to count."
NO_FAILURE_FILE = "A training job of SageMaker is refused, because its failure file cannot be read from a pod."
ENFORCED_CPU = "The CPU of a node is a limit for the requests of its pods, and no weight."
NOT_MEASURED = "What a pod used is not measured."
MANY_SECONDS = "The model runs in real time, and these tests count many seconds."
SIMULATED_PROGRAM = "The containers of the model play scripts, and this test runs another program."

#: On the model and on a cluster.
ON_KUBERNETES = {
    "test_exec::test_a_command_runs_in_a_job_and_does_not_change_the_job": NO_EXEC,
    "test_exec::test_a_stop_of_the_job_ends_the_session": NO_EXEC,
    "test_networks": NO_SHARED_NETWORK,
    "test_images::test_an_absent_image_is_pulled": NO_PULL,
    "test_images::test_many_jobs_wait_for_the_same_image": NO_PULL,
    "test_images::test_a_pull_delays_no_job_whose_image_exists": NO_PULL,
    "test_images::test_a_job_terminated_during_a_pull_ends_at_once_without_a_container": NO_PULL,
    "test_why_started::test_a_job_shows_which_image_it_pulls": NO_PULL,
    "test_final_checkpoints_of_dialects::test_a_cancel_with_a_final_checkpoint_shows_the_checkpoint_that_was_written"
    "[SageMaker]": NO_FAILURE_FILE,
    "test_final_checkpoints_of_dialects::test_a_stop_by_sagemaker_writes_a_final_checkpoint": NO_FAILURE_FILE,
    "test_final_checkpoints_of_dialects::test_a_stop_by_sagemaker_shows_that_the_program_wrote_no_final_checkpoint": (
        NO_FAILURE_FILE
    ),
    "test_final_checkpoints_of_dialects::test_a_pause_writes_a_checkpoint_from_which_the_job_of_a_dialect_continues"
    "[SageMaker]": NO_FAILURE_FILE,
    "test_final_checkpoints_of_dialects::test_a_forced_stop_of_a_job_of_a_dialect_is_shown[SageMaker]": NO_FAILURE_FILE,
    "test_force_fail::test_the_capacity_is_free_at_once_and_the_container_is_removed_when_possible": (
        "A node keeps the room of a container that still runs, whatever has become of its job."
    ),
    "test_run::test_an_unschedulable_job_runs_once_an_environment_is_large_enough": ENFORCED_CPU,
    "test_why_queued::test_a_job_with_more_memory_than_the_host_cannot_start": (
        "There is no host: the explanation says that no machine is large enough (TOO_LARGE_FOR_MACHINES)."
    ),
    "test_use::test_the_end_of_a_job_does_not_wait_for_a_sample": NOT_MEASURED,
    "test_use::test_the_use_goes_on_after_a_restart": NOT_MEASURED,
    "test_use::test_a_saved_sample_survives_a_crash_and_an_end_without_a_server": NOT_MEASURED,
}
ON_MODEL = {
    "test_budgets": MANY_SECONDS,
    "test_costs": MANY_SECONDS,
    "test_unobserved_time": MANY_SECONDS,
    "test_training_jobs::test_the_hyperparameters_are_a_file_of_the_container": SIMULATED_PROGRAM,
    "test_training_jobs::test_a_program_without_a_signal_handler_ends_with_the_stop_signal": SIMULATED_PROGRAM,
}
ON_CLUSTER = {}
EXCLUDED = {MODEL: ON_KUBERNETES | ON_MODEL, CLUSTER_WORLD: ON_KUBERNETES | ON_CLUSTER}


def is_excluded(item):
    """Whether a collected test is one that its world does not run."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    excluded = EXCLUDED.get(parameters.get("world"), {})
    name = f"{item.path.stem}::{item.originalname}"
    parts = item.callspec.id.split("-") if excluded else []
    return not excluded.keys().isdisjoint({item.path.stem, name, *(f"{name}[{part}]" for part in parts)})
