"""The installed package owns one top-level name: it runs in projects that have packages called api or compute."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from email import message_from_string
from operator import itemgetter
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from batchq.cli.command_table import COMMANDS
from tests.house.rooms import ROOT
from tests.support.installed_size import dependencies, file_bytes, size_of

# A test builds up to three archives, with processes of their own: minutes on a busy machine.
pytestmark = pytest.mark.timeout(400)

#: The unit of `batchq install-service` names a page of it.
REPOSITORY = "https://github.com/batchq/batchq"
VARIABLES = os.environ | {"SOURCE_DATE_EPOCH": "1795000000"}
PROGRAM = """
import api, compute, batchq, batchq.api.serving.app, batchq.compute.docker.runtime
print(api.__file__, compute.__file__, batchq.__file__)
"""
CONSOLE = """
import asyncio, re, sys
from pathlib import Path
from urllib.request import urlopen
from batchq.server.bootstrap import serving
from batchq.settings import Runtime, Settings

async def get(url):
    return (await asyncio.to_thread(lambda: urlopen(url).read())).decode()

async def main():
    async with serving(Settings(data=Path(sys.argv[1]), port=0, runtime=Runtime.SIMULATED)) as server:
        page = await get(server.urls[0] + "/ui/")
        files = re.findall('/ui/static/[^"]*', page)
        print("Overview" in page, [len(await get(server.urls[0] + name)) > 0 for name in files])

asyncio.run(main())
"""


def run(*command, **options):
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(folder):
    """The wheel of the sources, built in a folder of its own."""
    return wheel_of(sources_in(folder / "source"), folder)


def sources_in(source):
    """A copy of the sources in a new folder, from which a wheel can be built."""
    for name in ("batchq", "compute", "api", "packaging"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # Clones of users with another umask have other modes.
    run("chmod", "-R", "u=rwX,go=rX", str(source))
    return source


def wheel_of(source, folder):
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(source), env=VARIABLES)
    (wheel,) = folder.glob("batchq-*.whl")
    return wheel


def sdist_of(source, folder):
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, source, env=VARIABLES)
    (archive,) = folder.glob("batchq-*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    return sdist_of(sources_in(folder / "source"), folder)


@pytest.fixture(scope="module")
def installed(wheel):
    """A folder with the contents of the wheel, as pip would install it."""
    ZipFile(wheel).extractall(wheel.parent / "installed")
    return wheel.parent / "installed"


@pytest.fixture
def environment(installed):
    """Variables with which Python imports the installed wheel."""
    return {"PYTHONPATH": f"{installed}:{sysconfig.get_path('purelib')}", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def project(tmp_path):
    for name in ("api", "compute"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    return tmp_path


@pytest.mark.exhaustive
def test_two_builds_of_the_same_sources_are_equal(wheel, tmp_path):
    assert built(tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.exhaustive
def test_the_source_distribution_builds_the_same_wheel(wheel, archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")

    assert wheel_of(tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path).read_bytes() == wheel.read_bytes()


@pytest.mark.exhaustive
def test_two_source_distributions_of_files_with_other_times_and_modes_are_equal(archive, tmp_path):
    source = sources_in(tmp_path / "source")
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o664)
            os.utime(path, (1, 1))

    assert sdist_of(source, tmp_path).read_bytes() == archive.read_bytes()


@pytest.mark.exhaustive
def test_the_metadata_name_the_license_the_authors_the_pages_the_types_and_the_command(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    (commands,) = installed.glob("*.dist-info/entry_points.txt")

    described = message_from_string(metadata.read_text())
    pages = dict(line.split(", ") for line in described.get_all("Project-URL"))

    assert described["License-Expression"] == "MIT AND Apache-2.0"
    assert described["Author"] == "The batchq authors"
    assert pages.keys() == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert {url for url in pages.values() if not f"{url}/".startswith(f"{REPOSITORY}/")} == set()
    assert "Typing :: Typed" in described.get_all("Classifier")
    assert (installed / "batchq" / "py.typed").exists()
    assert "batchq = batchq.cli.main:main" in commands.read_text()


@pytest.mark.exhaustive
def test_the_extra_testing_installs_pytest_and_nothing_of_the_tests_of_batchq(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    required = message_from_string(metadata.read_text()).get_all("Requires-Dist")

    names = {Requirement(text).name for text in required if text.endswith('extra == "testing"')}

    assert names == {"pytest"}


@pytest.mark.exhaustive
def test_an_installation_takes_at_most_70_megabytes_with_its_bytecode(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    names = dependencies(message_from_string(metadata.read_text()).get_all("Requires-Dist"))
    run(sys.executable, "-m", "compileall", "-q", str(installed))

    sizes = {name: size_of(name) for name in names} | {"batchq": file_bytes(installed.rglob("*"))}

    assert min(sizes.values()) > 0
    assert sum(sizes.values()) <= 70_000_000, sorted(sizes.items(), key=itemgetter(1))


def test_make_install_takes_at_most_250_megabytes():
    assert ".ci/venv $(PYTHON) kubernetes\n" in (ROOT / "Makefile").read_text()
    names = dependencies(["batchq[kubernetes]"]) | {"pip", "setuptools"}

    sizes = {name: size_of(name) for name in names}

    assert {"aiohttp", "pyyaml"} < names
    assert sum(sizes.values()) <= 250_000_000, sorted(sizes.items(), key=itemgetter(1))


@pytest.mark.exhaustive
def test_the_wheel_has_the_models_of_aws_with_their_license(installed):
    folder = installed / "batchq" / "api" / "operations" / "aws_models"
    (licenses,) = installed.glob("*.dist-info/licenses")

    assert {path.name for path in folder.iterdir()} == {"batch.json", "logs.json", "sagemaker.json", "NOTICE"}
    assert "Apache License" in (licenses / "api" / "operations" / "aws_models" / "LICENSE").read_text()


@pytest.mark.exhaustive
def test_the_wheel_has_one_top_level_package(installed):
    assert [path.name for path in installed.iterdir() if path.suffix not in {".dist-info", ".data"}] == ["batchq"]


@pytest.mark.exhaustive
def test_the_wheel_has_a_man_page_of_each_command_and_the_completions(installed):
    (data,) = installed.glob("*.data")
    shared = {str(path.relative_to(data / "data" / "share")) for path in data.rglob("*") if path.is_file()}

    assert shared == {
        "man/man1/batchq.1",
        *(f"man/man1/batchq-{name}.1" for name in COMMANDS),
        "bash-completion/completions/batchq",
        "zsh/site-functions/_batchq",
        "fish/vendor_completions.d/batchq.fish",
    }


@pytest.mark.exhaustive
def test_the_installed_wheel_serves_the_console(environment, tmp_path):
    shown = run(sys.executable, "-c", CONSOLE, str(tmp_path / "data"), cwd=tmp_path, env=environment)

    assert shown == "True [True, True, True, True, True, True]\n"


@pytest.mark.exhaustive
def test_the_wheel_runs_in_a_project_with_packages_of_the_same_names(installed, environment, project):
    python = sys.executable

    version = run(python, "-m", "batchq", "--version", cwd=project, env=environment)
    origins = run(python, "-c", PROGRAM, cwd=project, env=environment).split()

    assert version.startswith("batchq ")
    assert origins == [
        str(project / "api/__init__.py"),
        str(project / "compute/__init__.py"),
        str(installed / "batchq/__init__.py"),
    ]
