"""Run the demo and tests marked `docker` on several container engines, and print a matrix for docs/engines.md.

    python -m tests.engines                       # the engines of DEFAULT
    python -m tests.engines --only podman-4,docker-26
    python -m tests.engines --only podman-4 --demo-only
    python -m tests.engines --only docker-29 --all   # each test marked `docker`: half an hour
    python -m tests.engines --only docker-29 --clients # the demo and the tests with other clients
    python -m tests.engines --only docker-29 --short # the demo and the contract of the runtime: a minute
    python -m tests.engines --only docker-29 --install

Each engine runs in namespaces of its own (`engine.py`), and is installed below /opt/engines at the first run.
`--install` does only that: it fails if the mirror of Debian does not answer, or if this user cannot make namespaces. An
engine that cannot be installed or started is reported in its row. The exit status is 1 if any row has a failure.
"""

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from msgspec import Struct

from tests.engines.differences import ON_ANOTHER_ROOT, ON_PODMAN, ON_PODMAN_4, ROOTLESS
from tests.engines.engine import EngineBuild, RunningEngine, started
from tests.support.docker_api import docker_api

ROOT = Path(__file__).parents[2]
MAKE_IMAGES = str(ROOT / ".ci" / "docker_api.py")
#: Tests that download, or open a browser: they prove nothing about the engine.
MARKED = ("-m", "docker and not clients and not browser")
#: Arguments of pytest.
ON_EACH_ENGINE = (
    *MARKED,
    "tests/contracts",
    *(f"tests/compute/test_docker{name}.py" for name in ("", "_parts", "_networks", "_labels", "_mounts", "_pull")),
)
OF_THE_RUNTIME = (*MARKED, *(f"tests/contracts/test_{name}.py" for name in ("runtime", "runtime_parts", "exec")))
OF_DOCKER = (*MARKED, "tests", *(f"--ignore=tests/{folder}" for folder in ("image", "debian", "docs", "kubernetes")))
OF_CLIENTS = ("-m", "clients", "tests/clients")
TEST_TIMEOUT = 45 * 60.0  # seconds for the tests on one engine
#: The crun of Debian, beside runc.
CRUN = ("--add-runtime", "crun=/usr/bin/crun")
BUILDS = (
    EngineBuild(name="podman-4", kind="podman"),
    EngineBuild(name="podman-5", kind="podman", suite="trixie"),
    EngineBuild(name="podman-sid", kind="podman", suite="sid"),
    EngineBuild(name="podman-5-rootless", kind="podman", suite="trixie", is_rootless=True),
    EngineBuild(name="docker-20", kind="docker", flags=CRUN),
    EngineBuild(name="docker-26", kind="docker", suite="trixie", flags=CRUN),
    EngineBuild(name="docker-26-crun", kind="docker", suite="trixie", flags=(*CRUN, "--default-runtime", "crun")),
    EngineBuild(name="docker-26-rootless", kind="docker", suite="trixie", is_rootless=True),
    EngineBuild(name="docker-28", kind="docker", suite="sid", flags=CRUN),
    # As Docker 29: the containerd image store, and a higher minimum of the API version.
    EngineBuild(
        name="docker-29",
        kind="docker",
        suite="sid",
        flags=("--feature", "containerd-snapshotter=true"),
        environment={"DOCKER_MIN_API_VERSION": "1.44"},
    ),
)
DEFAULT = ("podman-4", "podman-5", "docker-26", "docker-28", "docker-29")


class Row(Struct, kw_only=True):
    """The results of one engine."""

    name: str
    #: The engine with its version, API and OCI runtime; or why it did not start.
    engine: str = ""
    demo: str = "not run"
    tests: str = "not run"
    failures: list[str] = []
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"| {self.name} | {self.engine} | {self.demo} | {self.tests} | {self.seconds:.0f} s |"


def main() -> int:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, end)
    chosen = [build for build in BUILDS if build.name in arguments.only]
    if arguments.install:
        return install(chosen)
    subprocess.run([ROOT / ".ci" / "tools"], check=True, stdout=sys.stderr)  # the engines' namespaces reach no mirror
    if arguments.tests is OF_CLIENTS:
        subprocess.run([ROOT / ".ci" / "clients"], check=True, stdout=sys.stderr)
    if arguments.bench:
        for build in chosen:
            bench(build)
        return 0
    rows = [examine(engine, arguments.tests, workers=arguments.workers) for engine in chosen]
    print("\n| name | engine | demo | tests marked `docker` | duration |\n|---|---|---|---|---|")
    for row in rows:
        print(row)
        for failure in row.failures:
            print(f"    {failure}")
    return int(any(row.failures for row in rows))


def end(*_: object) -> None:
    """Exit, so that a running engine is stopped. `timeout` sends the signal twice; the stop is not interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    names = [build.name for build in BUILDS]
    parser.add_argument(
        "--only", type=lambda text: text.split(",") if text else DEFAULT, default=DEFAULT, help=f"of {', '.join(names)}"
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--install", action="store_true", help="install the engines, and do not start them")
    add_choice = partial(choice.add_argument, action="store_const", dest="tests", default=ON_EACH_ENGINE)
    add_choice("--demo-only", const=(), help="run the demo without the tests")
    add_choice("--short", const=OF_THE_RUNTIME, help="run the demo and the contract of the runtime")
    add_choice("--all", const=OF_DOCKER, help="run each test marked `docker`")
    add_choice("--clients", const=OF_CLIENTS, help="run the demo and the tests with other clients")
    choice.add_argument("--bench", action="store_true", help="measure containers a second, also with crun; run no test")
    parser.add_argument("--workers", default="2", help="processes of pytest (2)")
    arguments = parser.parse_args()
    unknown = set(arguments.only) - set(names)
    if unknown:
        parser.error(f"not an engine: {', '.join(sorted(unknown))}")
    return arguments


def install(builds: Sequence[EngineBuild]) -> int:
    """Install the engines; the exit status. The namespaces of an engine are tried before."""
    try:
        subprocess.run(["unshare", "--mount", "--net", "--propagation", "private", "true"], check=True)
        for build in builds:
            began = time.monotonic()
            build.install()
            print(f"{build.name} is installed ({time.monotonic() - began:.0f} s)", flush=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not installed: {error}", file=sys.stderr)
        return 1
    return 0


def examine(build: EngineBuild, tests: Sequence[str], *, workers: str) -> Row:
    """Install and start the engine, run the demo and the tests on it, and stop it."""
    row, began = Row(name=build.name, failures=[]), time.monotonic()
    print(f"== {build.name}", flush=True)
    try:
        with started(build) as engine:
            row.engine = describe(engine)
            make_images(engine)
            row.demo = run_demo(engine, row.failures)
            if tests:
                row.tests = run_tests(engine, tests, row.failures, workers=workers)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        row.engine = row.engine or "not started"
        row.failures.append(f"{build.name}: {error}")
    row.seconds = time.monotonic() - began
    return row


def bench(build: EngineBuild) -> None:
    """Measure containers a second on the engine, and print the figures.

    Raises CalledProcessError, OSError and TimeoutError.
    """
    with started(build) as engine:
        print(f"== {build.name}: {describe(engine)}", flush=True)
        make_images(engine)
        print(run(engine, sys.executable, "-m", "tests.bench", "--only", "containers"))


def describe(engine: RunningEngine) -> str:
    with closing(docker_api(engine.url)) as client:
        version, info = client.version(), client.info()
    name = "Podman" if engine.build.kind == "podman" else "Docker"
    runtime = Path(info["DefaultRuntime"]).name
    return f"{name} {version['Version']}, API {version['ApiVersion']} (min {version['MinAPIVersion']}), {runtime}"


def make_images(engine: RunningEngine) -> None:
    """Make the test images, around the static busybox that was installed with the engine."""
    busybox = engine.build.root / "usr" / "bin" / "busybox"
    command = (
        [".ci/engine"] if engine.build.suite is None else [sys.executable, MAKE_IMAGES, "make-images", str(busybox)]
    )
    subprocess.run(command, env=engine.environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def run(engine: RunningEngine, *words: str) -> str:
    """The output of a command in the engine's network namespace. Raises CalledProcessError and OSError."""
    command, pipe = engine.command("timeout", "--foreground", str(TEST_TIMEOUT), *words), subprocess.PIPE
    with subprocess.Popen(command, env=engine.environment, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            output, errors = process.communicate()
        finally:
            process.terminate()  # `subprocess.run` would kill `timeout`, and its command would go on
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return output


def run_demo(engine: RunningEngine, failures: list[str]) -> str:
    try:
        output = run(engine, sys.executable, "-m", "tests.demo")
    except subprocess.CalledProcessError as error:
        failures.append(f"demo: {error.stdout[-500:]}{error.stderr[-500:]}")
        return "fails"
    return output.splitlines()[-1]


def run_tests(engine: RunningEngine, tests: Sequence[str], failures: list[str], *, workers: str) -> str:
    """Run the tests, without those that the engine cannot pass, and return the summary."""
    flags = [f"--deselect={name}" for name in left_out(engine.build)]
    command = ["-m", "pytest", "-q", "-n", workers, "--dist", "worksteal", *flags, *tests]
    try:
        output = run(engine, sys.executable, *command)
    except subprocess.CalledProcessError as error:
        output = error.stdout
        print(output, file=sys.stderr)
        failures += [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        if not failures:
            failures.append(f"pytest: {error.stderr[-500:]}")
    summary = next(
        (line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed)", line)), "no summary"
    )
    return summary.partition(" in ")[0].strip("= ")


def left_out(build: EngineBuild) -> tuple[str, ...]:
    """The tests that the engine cannot pass."""
    groups = (
        (ON_ANOTHER_ROOT, True),
        (ON_PODMAN, build.kind == "podman"),
        (ON_PODMAN_4, build.name == "podman-4"),
        (ROOTLESS, build.is_rootless),
    )
    return tuple(name for names, applies in groups if applies for name in names)


if __name__ == "__main__":
    sys.exit(main())
