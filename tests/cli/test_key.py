"""`batchq key`, and the file that it writes: whole or not at all, and read by nobody but the server's user."""

import os
import resource
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from batchq.cli.main import main
from batchq.errors import Unavailable
from batchq.keys import KeyFile, new_key

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
NOBODY = 65534


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path)


@pytest.fixture
def key(keys):
    key = new_key("ada", NOW)
    keys.add(key)
    return key


@contextmanager
def full_disk():
    """As far as files of more than a few bytes are concerned."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_a_key_that_does_not_fit_is_not_given_out_and_leaves_nothing_behind(keys, key, tmp_path):
    before = sorted(tmp_path.iterdir())

    with full_disk(), pytest.raises(Unavailable, match="cannot write"):
        keys.add(new_key("bob", NOW))

    assert sorted(tmp_path.iterdir()) == before
    assert KeyFile(tmp_path).all() == (key,)


def test_keys_that_others_were_let_read_are_not_used_by_who_had_read_them(keys, key, tmp_path):
    assert keys.find(key.id) == key

    (tmp_path / "keys.json").chmod(0o640)

    with pytest.raises(Unavailable, match="others may read"):
        keys.find(key.id)


def test_no_file_of_it_is_for_others(key, tmp_path):
    assert {it.name: it.stat().st_mode & 0o077 for it in tmp_path.iterdir()} == {"keys.json": 0, "keys.lock": 0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes keys for another")
def test_what_root_makes_is_its_servers_to_read(tmp_path):
    os.chown(tmp_path, NOBODY, NOBODY)

    KeyFile(tmp_path).add(new_key("ada", NOW))

    assert (tmp_path / "keys.json").stat().st_uid == NOBODY


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"id": "a", "secret": "told to nobody"}]'])
def test_what_are_no_keys_is_said_in_a_line_that_shows_nothing_of_it(tmp_path, capsys, content):
    file = tmp_path / "keys.json"
    file.touch(mode=0o600)
    file.write_text(content)

    assert main(["key", "list", "--data", str(tmp_path)]) == 1

    said = capsys.readouterr().err
    assert said.startswith(f"batchq: what stands in {file} are no keys")
    assert "told to nobody" not in said
    assert said.count("\n") == 1
