"""Paths of pages about one job. The page of a node is below that of its job, because a URL cannot have the `#`."""

from collections.abc import Mapping

from batchq.domain.ids import JobId

#: A job, or the child `ID:INDEX` of an array.
JOB = "/jobs/{job:[0-9a-f:-]{1,64}}"
NODE = JOB + "/nodes/{node:[0-9]{1,6}}"


def job_id_of(path: Mapping[str, str]) -> JobId:
    """The job, child or node of a path."""
    return JobId(f"{path['job']}#{path['node']}" if "node" in path else path["job"])
