"""Runs the examples of one page, in their order, in one shell and against one server."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import yaml

from tests.docs.pages import ROOT, Example
from tests.support.certificates import Authority
from tests.support.service import reserved

BINARIES = Path(sys.executable).parent
READY = "batchq is ready at "
TOOLS = BINARIES.parent / "tools" / "usr" / "bin"  # of `.ci/tools`
PATIENCE = 60.0  # seconds
END = "-- end of the command --"
PORT = "22824"
DATA = "/var/lib/batchq"
ELSEWHERE = "https://batch.lab.example:22824"
RECEIVERS = re.compile("https://(ci.example.com|hooks.slack.com|discord.com|ntfy.sh|matrix.example.com)")
INSTALLATION = ("make ", "#")
INTERRUPT_AFTER = 3  # seconds
ENDED_BY_INTERRUPT = {0, 124, 130}  # 124: of timeout


class Session:
    """A folder with links to `.venv` and `docs`, a shell in it, and a server that is started by an example.

    Pages name the default port, and data in `/var/lib/batchq`; commands get a free port and a folder of the test.
    Commands are found in `programs`, then in `.venv`. `make` runs in the folder of the repository. Webhooks of other
    hosts go to a receiver on loopback, which accepts all. A server with `--tls-cert` gets a certificate that programs
    trust as one of the system.
    """

    def __init__(self, folder: Path, *, docker: bool, programs: Path = BINARIES) -> None:
        self.folder = folder
        self._reserved = reserved()
        port = str(self._reserved.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        self._own = {ELSEWHERE: self.url, PORT: port, DATA: str(folder / "data")}
        self._receiver = ThreadingHTTPServer(("127.0.0.1", 0), Accepting)
        Thread(target=self._receiver.serve_forever, daemon=True).start()
        self._runtime = "docker" if docker else "simulated"
        self._server: subprocess.Popen[str] | None = None
        (folder / ".venv").symlink_to(BINARIES.parent)
        (folder / "docs").symlink_to(ROOT / "docs")
        inherited = {name: os.environ[name] for name in ("DOCKER_HOST", "TMPDIR") if name in os.environ}
        self.environment = inherited | {
            "HOME": str(folder),
            "TZ": "UTC",
            "PATH": f"{programs}:{BINARIES}:{TOOLS}:{os.environ['PATH']}",
            "BATCHQ_DATA": str(folder / "data"),
            "BATCHQ_PORT": port,
            "BATCHQ_WEBHOOK_HOSTS": "127.0.0.1",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def close(self) -> None:
        self._shell.communicate("exit\n", timeout=PATIENCE)
        self.stop_server()
        self._receiver.shutdown()
        self._receiver.server_close()
        self._reserved.close()

    def play(self, example: Example) -> list[str]:
        """Run an example. The lines that a `console` block should have."""
        match example.action:
            case "file":
                (self.folder / example.argument).write_text(self._inward(example.text))
            case "server" if is_served(example):
                self.start_server(served(example.text), example.argument)
            case "workflow":
                yaml.safe_load(example.text)
            case "interrupt":
                self._interrupted(example)
            case _:
                if example.action == "stop":
                    self.stop_server()
                if example.action == "server":
                    self.start_server("batchq serve", example.argument)
                return self._commands(example)
        return []

    def start_server(self, command: str, flags: str) -> None:
        self.stop_server()
        if "--tls-cert" in command:
            self._serve_tls()
        with (self.folder / "server.log").open("a") as log:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {self._inward(command)} --runtime {self._runtime} {flags}"],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        line = self._server.stdout.readline()
        assert line.startswith(READY), (self.folder / "server.log").read_text()
        self._run(f"export BATCHQ_URL={self.url}")

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(PATIENCE)
            self._server.stdout.close()
            self._server = None

    def _serve_tls(self) -> None:
        bundle = Authority(self.folder).issue("lab").bundle
        self.url = self._own[ELSEWHERE] = self.url.replace("http:", "https:")
        self.environment["SSL_CERT_FILE"] = str(bundle)
        self._run(f"export SSL_CERT_FILE={bundle}")

    def _interrupted(self, example: Example) -> None:
        for line in filter(None, example.text.splitlines()):
            status, output = self._run(f"timeout --signal=INT {INTERRUPT_AFTER} bash -c {shlex.quote(line)}")
            assert status in ENDED_BY_INTERRUPT, "\n".join([line, *output])

    def _commands(self, example: Example) -> list[str]:
        if example.language != "console":
            status, output = self._run(f"failed=0; trap 'failed=$?' ERR\n{example.text}\ntrap - ERR; (exit $failed)")
            assert status == 0, "\n".join([example.text, *output])
            return output
        return [line for command in commands(example.text) for line in self._typed(command)]

    def _typed(self, command: str) -> Iterator[str]:
        yield f"$ {command}"
        if secrets := re.match("export .*AWS_SECRET_ACCESS_KEY=[.]{3}$", command):
            command = secrets[0].partition(" AWS_ACCESS_KEY_ID")[0] + f"; {self._key()}"
        _, output = self._run(command)
        yield from output

    def _key(self) -> str:
        """The last key that was created on this page."""
        return (self.folder / "key").read_text()

    def _run(self, command: str) -> tuple[int, list[str]]:
        script = self.folder / "command.sh"
        script.write_text(self._inward(command) + "\n")
        self._shell.stdin.write(f". ./command.sh < /dev/null; printf '\\n%s %s\\n' '{END}' $?\n")
        self._shell.stdin.flush()
        lines = []
        for line in self._shell.stdout:
            if line.startswith(END):
                break
            lines.append(line.rstrip("\n"))
        else:
            raise AssertionError("\n".join(["the shell has ended", command, *lines]))
        if exported := [line for line in lines if line.startswith("export AWS_ACCESS_KEY_ID=")]:
            (self.folder / "key").write_text(exported[-1])
        printed = "\n".join(lines).rstrip("\n")
        return int(line.split()[-1]), self._outward(printed).splitlines()

    def _inward(self, text: str) -> str:
        text = re.sub("^make ", f"make -C {ROOT} ", text, flags=re.MULTILINE)
        for shown, own in self._own.items():
            text = text.replace(shown, own)
        return RECEIVERS.sub(f"http://127.0.0.1:{self._receiver.server_port}", text)

    def _outward(self, text: str) -> str:
        for shown, own in reversed(self._own.items()):
            text = text.replace(own, shown)
        return re.sub("AWS_SECRET_ACCESS_KEY=[^ ]+", "AWS_SECRET_ACCESS_KEY=...", text)


class Accepting(BaseHTTPRequestHandler):
    """Answers each message of a webhook by 200."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *words: object) -> None:
        pass


def is_served(example: Example) -> bool:
    """Whether the last command of the block starts a server."""
    return example.language != "console" and "batchq serve" in served(example.text)


def served(text: str) -> str:
    """The command of a server: the last line that does not install anything."""
    return [line for line in text.splitlines() if line and not line.startswith(INSTALLATION)][-1].partition("#")[0]


def commands(text: str) -> Iterator[str]:
    """The commands of a `console` block, without their recorded output."""
    return (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))


def comparable(text: str) -> str:
    """A recorded output without ids, keys, sizes and times, which differ in each run."""
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r"(?<!\.)\b[0-9a-f]{8}\b", "ID", text)
    text = re.sub(r"\bBQ[A-Z0-9]{10,}\b", "KEY", text)
    text = re.sub(r"[0-9]+(st|nd|rd|th)\b", "0th", text)
    text = re.sub(r"[0-9]+(\.[0-9]+)?", "0", text)
    text = re.sub(r"about 0 (s|min|h) left", "about 0 s left", text)
    return re.sub(r" +", " ", text)
