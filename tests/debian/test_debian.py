"""batchq in a fresh Debian with Python and the socket of an engine: the transcript of docs/operations.md.

`DEBIAN_TRANSCRIPT=write` writes the transcript into the page.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from batchq.store.statements import newest_schema
from tests.debian.chroot import debian, ensure_root
from tests.debian.transcript import transcript
from tests.docs.engine import example_engine
from tests.house.rooms import ROOT
from tests.house.test_wheel import built, sources_in, wheel_of
from tests.image.build import AWS_WHEELS, WHEELS, ensure_wheels

PAGE = ROOT / "docs" / "operations.md"
PART = re.compile(r"(?<=<!-- transcript -->\n\n).*?(?=\n<!-- /transcript -->)", re.DOTALL)
NEXT = "0.1.1"

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture
def wheels(tmp_path):
    """The wheels of this version and of its dependencies, of a later version, and of the AWS CLI."""
    ensure_wheels()
    ensure_wheels(AWS_WHEELS, "awscli")
    (tmp_path / "old").mkdir()
    return {
        "old": [*WHEELS.glob("*.whl"), built(tmp_path / "old")],
        "new": [wheel_of(later_sources(tmp_path / "later"), tmp_path)],
        "aws": [*AWS_WHEELS.glob("*.whl")],
    }


def later_sources(folder):
    """The sources with a later version and one more version of the schema."""
    sources_in(folder)
    for file, before in (("pyproject.toml", 'version = "0.1.0"'), ("batchq/__init__.py", '__version__ = "0.1.0"')):
        text = (folder / file).read_text()
        assert before in text
        (folder / file).write_text(text.replace("0.1.0", NEXT, 1))
    scripts = folder / "batchq" / "store" / "sql"
    (scripts / f"{newest_schema() + 1:04}_later.sql").write_text("CREATE TABLE later (name TEXT PRIMARY KEY) STRICT;\n")
    return folder


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("debootstrap"), reason="needs root and debootstrap")
def test_the_transcript_of_an_installation_is_current(docker_engine, wheels, tmp_path):
    try:
        ensure_root()
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"no mirror of Debian: {failed}")
    with example_engine(tmp_path), debian(sys._base_executable) as shell:
        played = transcript(shell, wheels)

    if os.environ.get("DEBIAN_TRANSCRIPT") == "write":
        PAGE.write_text(PART.sub(lambda _: played, PAGE.read_text()))
    assert PART.search(PAGE.read_text())[0] == played
