"""The configuration file of the commands: server, key and defaults; their precedence, and invalid files."""

import os
from argparse import Namespace
from pathlib import Path

import pytest

from batchq.cli import config
from batchq.cli.config import defaults, load
from batchq.cli.http_client import url_of
from batchq.cli.main import main
from batchq.errors import Misused
from batchq.settings import Settings

VARIABLES = ["BATCHQ_URL", "AWS_CA_BUNDLE", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
KEY = 'key_id = "BQ1"\nsecret = "not shown"\n'


@pytest.fixture(autouse=True)
def variables(monkeypatch, tmp_path):
    """None is there, and none stays."""
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


def test_what_it_says_holds_where_no_variable_does(write, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")

    load(write(f'url = "http://there:1"\nregion = "us-east-2"\n{KEY}'))

    assert there() == {
        "BATCHQ_URL": "http://there:1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "BQ1",
        "AWS_SECRET_ACCESS_KEY": "not shown",
    }


def test_flag_goes_before_variable_and_that_before_file(write, monkeypatch):
    file = write('url = "http://file:1"')
    assert url_of(Namespace(url=None, ca_bundle=None, config=file)) == "http://file:1"
    monkeypatch.setenv("BATCHQ_URL", "http://variable:1")
    assert url_of(Namespace(url=None, ca_bundle=None, config=file)) == "http://variable:1"
    assert url_of(Namespace(url="http://flag:1", ca_bundle=None, config=file)) == "http://flag:1"


def test_the_default_config_file_is_read_if_it_exists(write):
    fields = Namespace(url=None, ca_bundle=None, config=None)
    assert url_of(fields) == "http://127.0.0.1:22824"

    write('url = "http://home:1"', at="home/batchq/config.toml")

    assert url_of(fields) == "http://home:1"


def test_key_id_and_secret_come_from_one_source(write, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-variable")

    load(write(KEY))

    assert there() == {"AWS_ACCESS_KEY_ID": "of-the-variable"}


def test_a_profile_names_a_key_in_the_shared_credentials_file(write):
    write("[lab]\naws_access_key_id = BQ2\naws_secret_access_key = s%cret\n", at="credentials")

    load(write('profile = "lab"'))

    assert there() == {"AWS_ACCESS_KEY_ID": "BQ2", "AWS_SECRET_ACCESS_KEY": "s%cret"}


def test_a_bundle_lies_beside_it(write, tmp_path):
    load(write('ca_bundle = "lab.pem"'))

    assert there() == {"AWS_CA_BUNDLE": str(tmp_path / "lab.pem")}


@pytest.mark.fault("SE14")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_secret_that_others_may_read_is_refused(write, mode):
    with pytest.raises(Misused, match=r"other users can read the secret in .*: chmod 600 "):
        load(write(KEY, mode=mode))

    assert there() == {}


def test_one_without_a_secret_may_be_read_by_all(write):
    load(write('url = "http://there:1"', mode=0o644))

    assert there() == {"BATCHQ_URL": "http://there:1"}


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
    with pytest.raises(Misused, match=r"cannot read|not valid TOML"):
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
    write(
        'url = "http://everyone:1"\nregion = "us-east-2"\n[defaults]\nqueue = "day"\ndefinition = "align"',
        at="etc/config.toml",
    )
    write('url = "http://mine:1"\n[defaults]\nqueue = "night"', at="home/batchq/config.toml")

    load(None)

    assert there() == {"BATCHQ_URL": "http://mine:1", "AWS_DEFAULT_REGION": "us-east-2"}
    assert defaults(None) == {"queue": "night", "definition": "align"}


def test_a_named_file_replaces_the_users_file_and_not_the_system_wide_file(write):
    write('region = "us-east-2"', at="etc/config.toml")
    write('url = "http://mine:1"', at="home/batchq/config.toml")

    load(write('ca_bundle = "/lab.pem"', at="named.toml"))

    assert there() == {"AWS_DEFAULT_REGION": "us-east-2", "AWS_CA_BUNDLE": "/lab.pem"}


def test_a_key_of_the_users_file_is_not_mixed_with_one_of_the_system_wide_file(write):
    write('key_id = "BQ9"\nsecret = "of all"', at="etc/config.toml")
    write(KEY, at="home/batchq/config.toml")

    load(None)

    assert there() == {"AWS_ACCESS_KEY_ID": "BQ1", "AWS_SECRET_ACCESS_KEY": "not shown"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("defaults = 1", "defaults must be a table"),
        ("[defaults]\nqueues = 'a'", "unknown member queues of .defaults.; the members are columns, definition, queue"),
        ("[defaults]\nqueue = 1", "queue of .defaults. must be a string that is not empty"),
    ],
)
def test_invalid_defaults_are_refused(write, text, error):
    with pytest.raises(Misused, match=error):
        load(write(text))
