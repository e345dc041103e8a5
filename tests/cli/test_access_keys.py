"""`batchq key` and its file, which is replaced as a whole and readable only for the user of the server."""

import os
import resource
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from batchq.accounts.files import AccessKeyFile, new_key
from batchq.cli.main import main
from batchq.domain.enums import KeyState
from batchq.errors import Unavailable
from batchq.ports.responses.accounts import NewKeyResponse

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UNPRIVILEGED = 65534


@pytest.fixture
def keys(tmp_path):
    return AccessKeyFile(tmp_path)


@pytest.fixture
def key(keys):
    key = new_key("ada", NOW)
    keys.add(key)
    return key


@contextmanager
def full_disk():
    """Limit the size of files, so that a write of more than a few bytes fails as on a full disk."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_a_key_that_cannot_be_stored_is_not_printed_and_leaves_no_file(keys, key, tmp_path):
    before = sorted(tmp_path.iterdir())

    with full_disk(), pytest.raises(Unavailable, match="cannot write"):
        keys.add(new_key("bob", NOW))

    assert sorted(tmp_path.iterdir()) == before
    assert AccessKeyFile(tmp_path).all() == (key,)


def test_a_key_file_that_other_users_can_read_is_not_used_even_if_it_is_cached(keys, key, tmp_path):
    assert keys.find(key.id) == key

    (tmp_path / "keys.json").chmod(0o640)

    with pytest.raises(Unavailable, match="other users can read"):
        keys.find(key.id)


@pytest.fixture
def anothers():
    """A data directory of another user, with a folder of that user beside a file of root."""
    if os.geteuid() != 0:
        pytest.skip("only root acts for another user")
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        roots, data = Path(place) / "roots-file", Path(place) / "home" / "data"
        roots.write_text("root's")
        data.mkdir(parents=True)
        for path in (data, data.parent):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        yield data, roots


@pytest.mark.fault("SE37")
def test_files_that_root_creates_belong_to_the_owner_of_the_data(anothers, capsys):
    data, _ = anothers

    assert main(["key", "create", "--user", "ada", "--data", str(data)]) == 0

    assert {path.name for path in data.iterdir()} > {
        "keys.json",
        "keys.lock",
        "accounts.lock",
        "audit.log",
        "audit.lock",
    }
    assert {path.stat().st_uid for path in data.iterdir()} == {UNPRIVILEGED}
    assert os.geteuid() == 0


@pytest.mark.fault("SE33")
@pytest.mark.parametrize(
    "name", ["audit.log", "audit.lock", "keys.json", "keys.lock", "accounts.json", "accounts.lock"]
)
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_root_does_not_follow_symlinks_in_the_data_of_another_user(anothers, capsys, name, link):
    data, roots = anothers
    link(data / name, roots)
    before = roots.stat()

    status = main(["key", "create", "--user", "ada", "--data", str(data)])

    assert status == 1
    assert "cannot" in capsys.readouterr().err or name.endswith(".json")
    assert (roots.read_text(), roots.stat().st_uid) == ("root's", before.st_uid)


@pytest.mark.fault("SE33")
def test_a_dangling_symlink_creates_no_file(anothers, capsys):
    data, roots = anothers
    (data / "keys.lock").symlink_to(roots.with_name("new"))

    assert main(["key", "create", "--user", "ada", "--data", str(data)]) == 1
    assert not roots.with_name("new").exists()


@pytest.mark.fault("SE33")
def test_a_symlink_of_another_user_is_followed_with_that_users_rights(anothers, capsys):
    data, roots = anothers
    data.rmdir()
    data.symlink_to(roots.parent)
    os.lchown(data, UNPRIVILEGED, UNPRIVILEGED)

    assert main(["key", "create", "--user", "ada", "--data", str(data)]) == 1
    assert sorted(path.name for path in roots.parent.iterdir()) == ["home", "roots-file"]


@pytest.mark.parametrize("content", ["", "{", "[1]", '[{"id": "a", "secret": "a secret"}]'])
def test_an_invalid_key_file_is_reported_in_one_line_without_its_content(tmp_path, capsys, content):
    file = tmp_path / "keys.json"
    file.touch(mode=0o600)
    file.write_text(content)

    assert main(["key", "list", "--data", str(tmp_path)]) == 1

    text = capsys.readouterr().err
    assert text.startswith(f"batchq: {file} is not a valid file of access keys")
    assert "a secret" not in text
    assert text.count("\n") == 1


@pytest.mark.fault("SE36")
@pytest.mark.parametrize("member", ["id", "secret"])
def test_a_response_that_is_not_a_key_is_not_printed_for_the_shell(capsys, monkeypatch, member):
    key = {"id": "BQIA", "secret": "s3cr3t"} | {member: "x;touch pwned"}
    made = NewKeyResponse(user="ada", state=KeyState.ACTIVE, created_at=0, first_user=False, **key)
    monkeypatch.setattr("batchq.cli.accounts.perform", lambda *_, **__: made)

    assert main(["key", "create"]) == 1

    text = capsys.readouterr()
    assert text.out == ""
    assert text.err.startswith("batchq: the response of the server contains no valid access key")


@pytest.mark.fault("SE33")
def test_a_key_file_that_is_a_pipe_is_refused_without_waiting(tmp_path, keys):
    os.mkfifo(tmp_path / "keys.json")
    pipe = os.open(tmp_path / "keys.json", os.O_RDWR)  # or to open it would wait where this is broken

    with pytest.raises(Unavailable, match="not a regular file"):
        keys.all()
    os.close(pipe)
