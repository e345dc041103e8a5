"""Records of the containers themselves: each appends a line to a file when it starts, and one before it exits."""

from collections import Counter
from pathlib import Path
from typing import Any

RECORD = "echo {what} $AWS_BATCH_JOB_ID $AWS_BATCH_JOB_ATTEMPT >> /truth/log"


class Truth:
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._log = directory / "log"
        self._log.touch()
        self._directory = directory

    def container(self, work: str) -> dict[str, Any]:
        """containerProperties of a job with records. A stop signal ends it at once, without the record of its end."""
        start, end = (RECORD.format(what=it) for it in ("start", "end"))
        shell = f"trap 'exit 143' TERM; {start}; {work}; code=$?; {end}; exit $code"
        return {
            "image": "batchq-test:latest",
            "command": ["sh", "-c", shell],
            "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "16"}],
            "volumes": [{"name": "truth", "host": {"sourcePath": str(self._directory)}}],
            "mountPoints": [{"containerPath": "/truth", "sourceVolume": "truth"}],
        }

    def leave(self, name: str) -> None:
        """A file of this name, for containers that wait for it."""
        (self._directory / name).touch()

    def counts(self, what: str) -> Counter[tuple[str, int]]:
        """The number of these records of each attempt, by job and number."""
        lines = (line.split() for line in self._log.read_text().splitlines())
        return Counter((job_id, int(attempt)) for kind, job_id, attempt in lines if kind == what)
