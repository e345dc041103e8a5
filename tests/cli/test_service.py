"""`batchq install-service`: the files of a systemd service, in a folder that stands for the root of a file system."""

import shutil
import subprocess

import pytest

from batchq.cli import service
from batchq.cli.main import main

UNIT = "etc/systemd/system/batchq.service"
SOCKET = "etc/systemd/system/batchq.socket"
SETTINGS = "etc/batchq/server.toml"
USERS = "usr/lib/sysusers.d/batchq.conf"


@pytest.fixture(autouse=True)
def _usual_engine(monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)


def install(root, *flags):
    return main(["install-service", "--system", "--root", str(root), *flags])


def uninstall(root):
    return main(["uninstall-service", "--system", "--root", str(root)])


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.process  # systemd-analyze
def test_a_service_is_a_unit_a_user_and_a_settings_file_that_systemd_accepts(tmp_path, capsys):
    assert install(tmp_path, "--listen", "127.0.0.1:22824", "--listen", "/run/batchq.sock") == 0

    assert files(tmp_path) == {UNIT, SOCKET, SETTINGS, USERS}
    assert "systemctl enable --now batchq.socket batchq.service" in capsys.readouterr().out
    assert 'data = "/var/lib/batchq"' in (tmp_path / SETTINGS).read_text()
    assert "ListenStream=/run/batchq.sock\nSocketMode=0600\nSocketUser=batchq" in (tmp_path / SOCKET).read_text()
    if shutil.which("systemd-analyze"):
        units = [tmp_path / UNIT, tmp_path / SOCKET]
        checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
        assert "batchq" not in checked.stderr


@pytest.mark.process  # systemd-analyze
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_an_address_that_systemd_does_not_accept_is_reported(tmp_path, capsys):
    install(tmp_path, "--listen", "127.0.0.1:notaport")

    assert service._verify((tmp_path / UNIT, tmp_path / SOCKET)) != 0

    assert "batchq.socket:6: Failed to parse address value" in capsys.readouterr().err


@pytest.mark.process  # systemd-analyze
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_a_unit_that_could_not_be_checked_is_not_reported_as_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)  # as after `su`
    unit = tmp_path / "user" / "batchq.service"
    unit.parent.mkdir()
    unit.touch()

    assert service._verify((unit,)) == 0

    assert capsys.readouterr().out.startswith("not checked")


@pytest.mark.parametrize("scope", ["--system", "--user"])
@pytest.mark.parametrize(
    "address", ["unix:///run/user/1000/podman/podman.sock", "tcp://10.0.0.2:2376", "unix:///a%20b"]
)
def test_the_unit_names_the_engine_of_the_installation(scope, address, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("DOCKER_HOST", address)

    main(["install-service", scope, "--root", str(tmp_path)])

    (unit,) = tmp_path.rglob("batchq.service")
    assert f"\nEnvironment=DOCKER_HOST={address.replace('%', '%%')}\n" in unit.read_text()


def test_an_address_that_would_be_more_than_a_line_of_the_unit_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", "unix:///a\nUser=root")

    assert install(tmp_path) == 2

    assert "DOCKER_HOST is not the address of an engine" in capsys.readouterr().err
    assert files(tmp_path) == set()


def test_the_unit_runs_with_the_settings_file_that_is_written(tmp_path, capsys):
    install(tmp_path)

    assert f"serve --settings /{SETTINGS}" in (tmp_path / UNIT).read_text()
    assert main(["settings", "--settings", str(tmp_path / SETTINGS)]) == 0
    assert 'data = "/var/lib/batchq"' in capsys.readouterr().out


def test_an_installation_keeps_changed_settings_and_so_does_the_removal(tmp_path):
    install(tmp_path)
    (tmp_path / SETTINGS).write_text("port = 1\n")

    install(tmp_path)
    uninstall(tmp_path)

    assert files(tmp_path) == {SETTINGS}
    assert (tmp_path / SETTINGS).read_text() == "port = 1\n"


def test_an_installation_without_an_address_keeps_the_socket_unit(tmp_path):
    install(tmp_path, "--listen", "127.0.0.1:22824")

    install(tmp_path)

    assert "ListenStream=127.0.0.1:22824\n" in (tmp_path / SOCKET).read_text()
    uninstall(tmp_path)
    assert files(tmp_path) == {SETTINGS}


def test_a_unit_of_someone_else_is_not_removed(tmp_path, capsys):
    install(tmp_path)
    (tmp_path / UNIT).write_text("[Service]\nExecStart=/usr/bin/other\n")

    assert uninstall(tmp_path) == 2

    assert "was not written by batchq install-service" in capsys.readouterr().err
    assert files(tmp_path) == {UNIT, SETTINGS, USERS}


def test_without_a_service_nothing_is_removed(tmp_path, capsys):
    assert uninstall(tmp_path) == 2

    assert "no service is installed" in capsys.readouterr().err


def test_a_service_of_a_user_needs_no_rights_of_root(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", "/home/ada")

    assert main(["install-service", "--user", "--root", str(tmp_path)]) == 0

    unit = (tmp_path / "home/ada/.config/systemd/user/batchq.service").read_text()
    assert "User=" not in unit
    assert "NoNewPrivileges=yes" in unit
    assert "RestrictNamespaces=yes" in unit
    assert "UMask=0077" in unit
    # The manager of a user cannot set these without privileges: systemd.exec(5).
    assert "ProtectSystem=" not in unit
    assert "CapabilityBoundingSet=" not in unit
    assert "WantedBy=default.target" in unit
    assert "systemctl --user enable --now batchq.service" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["install-service", "uninstall-service"])
def test_the_scope_of_a_service_must_be_named(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command])

    assert ended.value.code == 2
    assert "--system" in capsys.readouterr().err
