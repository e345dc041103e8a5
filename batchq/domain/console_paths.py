"""Paths of the web console, which its pages and the commands of the command line link to. Pure."""

OVERVIEW_PAGE = "/ui/"


def job_path(job_id: str) -> str:
    """The path of the page of a job, of a child of an array, or of a node. A URL cannot have the `#` of a node."""
    whole, _, node = job_id.partition("#")
    return f"/ui/jobs/{whole}/nodes/{node}" if node else f"/ui/jobs/{whole}"
