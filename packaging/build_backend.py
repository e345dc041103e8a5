"""The build backend: setuptools, whose source distributions get the same bytes for the same files.

setuptools stores the owner, the mode and the time of each file, and the time of the build. With SOURCE_DATE_EPOCH,
which `.ci/dist` sets, they are replaced by constants: https://reproducible-builds.org/specs/source-date-epoch.
"""

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """The hook of PEP 517. Returns the name of the archive."""
    archive = build_meta.build_sdist(sdist_directory, config_settings)
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        _normalize(Path(sdist_directory) / archive, int(epoch))
    return archive


def _normalize(path: Path, epoch: int) -> None:
    """Write the archive again, with members of root at this time, in the order of their names."""
    new = path.with_name(f".{path.name}.new")
    with (
        tarfile.open(path) as old,
        new.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            constant = member.replace(
                mtime=epoch,
                mode=0o755 if member.isdir() or member.mode & 0o100 else 0o644,
                uid=0,
                gid=0,
                uname="",
                gname="",
            )
            constant.pax_headers = {}
            archive.addfile(constant, old.extractfile(member) if member.isreg() else None)
    new.replace(path)
