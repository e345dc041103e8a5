"""The configuration file of the commands: server, key and defaults; their precedence, and invalid files."""

import os
from argparse import Namespace
from pathlib import Path

import pytest

from batchq.cli import config
from batchq.cli.config import defaults, load
from batchq.cli.http_client import url_of
from batchq.cli.main import main
from batchq.errors import UsageError
from batchq.settings import Settings

VARIABLES = ["BATCHQ_URL", "AWS_CA_BUNDLE", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
USERS, SYSTEM = "home/batchq/config.toml", "etc/config.toml"
KEY = 'key_id = "BQ1"\nsecret = "not shown"\n'


@pytest.fixture(autouse=True)
def variables(monkeypatch, tmp_path):
    """No variable is set, and no file of this machine is read."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "etc" / "config.toml")


@pytest.fixture
def write(tmp_path):
    def write(text, *, mode=0o600, at="config.toml"):
        file = tmp_path / at
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(text)
        file.chmod(mode)
        return file

    return write


def there():
    return {name: os.environ[name] for name in VARIABLES if os.environ[name]}


PROFILE = "[lab]\naws_access_key_id = BQ2\naws_secret_access_key = s%cret\n"
OF_KEY = {"AWS_ACCESS_KEY_ID": "BQ1", "AWS_SECRET_ACCESS_KEY": "not shown"}
#: The environment, the files, and the variables that result. `config.toml` is the file of `--config`.
SOURCES = {
    "a variable goes before a file": (
        {"AWS_DEFAULT_REGION": "eu-west-1"},
        {"config.toml": f'url = "http://there:1"\nregion = "us-east-2"\n{KEY}'},
        {"BATCHQ_URL": "http://there:1", "AWS_DEFAULT_REGION": "eu-west-1", **OF_KEY},
    ),
    "key id and secret come from one source": (
        {"AWS_ACCESS_KEY_ID": "of-the-variable"},
        {"config.toml": KEY},
        {"AWS_ACCESS_KEY_ID": "of-the-variable"},
    ),
    "a profile names a key of the shared credentials": (
        {},
        {"credentials": PROFILE, "config.toml": 'profile = "lab"'},
        {"AWS_ACCESS_KEY_ID": "BQ2", "AWS_SECRET_ACCESS_KEY": "s%cret"},
    ),
    "a bundle is relative to its file": (
        {},
        {"config.toml": 'ca_bundle = "lab.pem"'},
        {"AWS_CA_BUNDLE": "{folder}/lab.pem"},
    ),
    "a named file replaces the user's file alone": (
        {},
        {SYSTEM: 'region = "us-east-2"', USERS: 'url = "http://mine:1"', "config.toml": 'ca_bundle = "/lab.pem"'},
        {"AWS_DEFAULT_REGION": "us-east-2", "AWS_CA_BUNDLE": "/lab.pem"},
    ),
    "keys of two files are not mixed": ({}, {SYSTEM: 'key_id = "BQ9"\nsecret = "of all"', USERS: KEY}, OF_KEY),
}


@pytest.mark.parametrize("name", SOURCES)
def test_members_of_the_files_set_the_variables_that_are_empty(write, monkeypatch, tmp_path, name):
    environment, files, result = SOURCES[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    for file, text in files.items():
        write(text, at=file)

    load(tmp_path / "config.toml" if "config.toml" in files else None)

    assert there() == {variable: value.format(folder=tmp_path) for variable, value in result.items()}


def test_the_url_is_that_of_the_flag_then_the_variable_then_the_file_then_the_default(write, monkeypatch):
    flags = {"ca_bundle": None, "config": None}
    assert url_of(Namespace(url=None, **flags)) == "http://127.0.0.1:22824"
    write('url = "http://file:1"', at=USERS, mode=0o644)
    assert url_of(Namespace(url=None, **flags)) == "http://file:1"
    monkeypatch.setenv("BATCHQ_URL", "http://variable:1/")
    assert url_of(Namespace(url=None, **flags)) == "http://variable:1"
    assert url_of(Namespace(url="https://flag", **flags)) == "https://flag"


@pytest.mark.fault("SE14")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_secret_that_others_may_read_is_refused(write, mode):
    with pytest.raises(UsageError, match=r"other users can read the secret in .*: chmod 600 "):
        load(write(KEY, mode=mode))

    assert there() == {}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            'uri = "http://there"',
            "unknown member uri; the members are ca_bundle, defaults, key_id, profile, region, secret, url",
        ),
        ("url = 1", "url must be a string that is not empty"),
        ('url = ""', "url must be a string that is not empty"),
        ('url = "a\\u0000b"', "url must be a string that is not empty"),
        ('key_id = "BQ1"', "give either key_id and secret, or profile"),
        ('secret = "not shown"', "give either key_id and secret, or profile"),
        (f'profile = "lab"\n{KEY}', "give either key_id and secret, or profile"),
        ('profile = "lab"', "profile lab has no key in "),
        ("secret = not shown", "is not valid TOML"),
        (f"a = {'[' * 5000}", "is not valid TOML"),
        ("defaults = 1", "defaults must be a table"),
        ("[defaults]\nqueues = 'a'", "unknown member queues of [defaults]; the members are columns, definition, queue"),
        ("[defaults]\nqueue = 1", "queue of [defaults] must be a string that is not empty"),
    ],
)
def test_an_invalid_config_file_is_reported_in_one_line_without_its_secret(write, capsys, text, printed):
    file = write(text)

    assert main(["cancel", "-t", "all", "-C", str(file)]) == 2

    described = capsys.readouterr().err
    assert str(file) in described
    assert printed in described
    assert "not shown" not in described
    assert described.count("\n") == 1
    assert there() == {}


@pytest.mark.parametrize("file", ["/no/such/file", "/", "a\0b"])
def test_an_unreadable_config_file_is_reported_with_its_path(file):
    with pytest.raises(UsageError, match=r"cannot read|not valid TOML"):
        load(Path(file))


def test_a_home_that_cannot_be_searched_is_reported_with_the_path_of_the_config_file(monkeypatch, capsys):
    monkeypatch.setenv("XDG_CONFIG_HOME", unsearchable := f"/{'a' * 256}")

    assert main(["list"]) == 2
    error = f"batchq: cannot read the config file {unsearchable}/batchq/config.toml: File name too long\n"
    assert capsys.readouterr().err == error


def test_a_server_starts_although_its_home_cannot_be_searched(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/" + "h" * 300)

    assert Settings(data=tmp_path / "data").private_paths == (tmp_path / "data", tmp_path / "data-checkpoints")


def test_the_users_file_takes_precedence_over_the_system_wide_file(write):
    write('url = "http://everyone:1"\nregion = "us-east-2"\n[defaults]\nqueue = "day"\ndefinition = "align"', at=SYSTEM)
    write('url = "http://mine:1"\n[defaults]\nqueue = "night"', at=USERS)

    load(None)

    assert there() == {"BATCHQ_URL": "http://mine:1", "AWS_DEFAULT_REGION": "us-east-2"}
    assert defaults(None) == {"queue": "night", "definition": "align"}
