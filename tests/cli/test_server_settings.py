"""The settings of a server: flags, variables, the settings file and the defaults, and what `batchq settings` prints."""

import json

import pytest

from batchq.cli.main import main
from batchq.settings import Settings


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a settings file, which the variable BATCHQ_SETTINGS names."""

    def write(text):
        path = tmp_path / "server.toml"
        path.write_text(text)
        monkeypatch.setenv("BATCHQ_SETTINGS", str(path))
        return path

    return write


@pytest.fixture
def settings(capsys):
    """What `batchq settings -o json` prints."""

    def printed(*flags):
        assert main(["settings", "-o", "json", *flags]) == 0
        return json.loads(capsys.readouterr().out)["settings"]

    return printed


@pytest.fixture
def refused(capsys):
    """The error of `batchq settings`, which ends with the exit status of misuse."""

    def error(*flags):
        assert main(["settings", *flags]) == 2
        return capsys.readouterr().err

    return error


def test_a_flag_goes_before_a_variable_that_before_the_file_and_that_before_the_default(file, settings, monkeypatch):
    file("port = 1\nregion = 'file'\nstop-grace = 5\n")
    monkeypatch.setenv("BATCHQ_PORT", "2")
    monkeypatch.setenv("BATCHQ_REGION", "variable")

    printed = settings("--port", "3")

    assert printed["port"] == {"value": 3, "source": "flag"}
    assert printed["region"] == {"value": "variable", "source": "variable"}
    assert printed["stop-grace"] == {"value": 5.0, "source": "file"}
    assert printed["min-timeout"] == {"value": 60, "source": "default"}
    assert len(printed) == len(Settings.model_fields)


def test_lists_have_one_spelling_in_flags_and_variables_and_may_be_lists_in_the_file(file, settings, monkeypatch):
    file("allowed-hosts = ['a.lab', 'b.lab']\n")
    monkeypatch.setenv("BATCHQ_VOLUMES", "/data:/scratch")

    printed = settings("--registries", "docker.io,lab.example/team")

    assert printed["allowed-hosts"]["value"] == ["a.lab", "b.lab"]
    assert printed["volumes"]["value"] == ["/data", "/scratch"]
    assert printed["registries"]["value"] == ["docker.io", "lab.example/team"]


def test_what_is_printed_is_a_settings_file_with_the_same_settings(file, settings, capsys):
    path = file('data = "/srv/batchq"\nno-tcp = true\nvolumes = ["/data"]\nlog-format = "json"\n')
    before = settings()
    assert main(["settings"]) == 0
    lines = capsys.readouterr().out

    assert 'data = "/srv/batchq"' in lines
    assert f"# file {path}" in lines
    file(lines)
    after = settings()
    assert {name: row["value"] for name, row in after.items()} == {name: row["value"] for name, row in before.items()}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("stop_grace = 5", "stop_grace"),  # keys are spelt as flags
        ("stop-grase = 5", "stop-grase"),
        ("stop-grace = -1", "stop-grace in "),
        ("port = 'x'", "port in "),
        ("volumes = ['relative']", "relative is not an absolute path"),
        ("port = ", "server.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named_in_one_line(file, refused, text, named):
    file(text)

    error = refused()

    assert named in error
    assert error.count("\n") == 1


def test_a_file_that_does_not_exist_is_refused(tmp_path, refused):
    assert "absent.toml" in refused("--settings", str(tmp_path / "absent.toml"))
