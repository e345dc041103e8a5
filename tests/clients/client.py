"""Clients as they come from PyPI, each run as a program of its own, outside batchq's environment."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.support.service import Service

HOME = Path(__file__).parent
PROGRAMS = HOME / "programs"
INSTALLED = HOME.parents[1] / ".venv" / "clients"
BIN = INSTALLED / "bin"
PATIENCE = 200  # seconds: a machine may be busy, and each job of an engine starts the engine again


class Client:
    """Runs the installed clients, which find the server by `AWS_ENDPOINT_URL` only."""

    def __init__(self, service: Service, folder: Path) -> None:
        assert BIN.exists(), "the clients are not installed: run .ci/clients"
        self.service = service
        self.folder = folder
        self.environment = service.environment() | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(folder),
            "AWS_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def run(
        self, *words: object, status: int | None = 0, stdin: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder of the test; with the status None any exit status is allowed."""
        done = subprocess.run(
            [str(word) for word in words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            cwd=self.folder,
            env=self.environment | variables,
        )
        assert status in (None, done.returncode), f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def result_of(self, program: str, *words: object, stdin: str | None = None, **variables: str) -> Any:
        """Run a program of `programs/`, and parse the last line of its output as JSON."""
        done = self.run("python", self.program(program), *words, stdin=stdin, **variables)
        return json.loads(done.stdout.splitlines()[-1])

    def program(self, name: str) -> Path:
        return PROGRAMS / f"{name}.py"
