"""An operator ends safe mode, by a command or by HTTP."""

import pytest

from batchq.cli.main import main


def test_data_that_was_never_restored_is_unaffected(shared, capsys):
    assert main(["leave-safe-mode", "--url", shared.url]) == 0
    assert capsys.readouterr().out == "jobs are started again\n"
    assert shared.health()["data"] == "ok"


def test_restored_data_waits_in_safe_mode(simulated, tmp_path):
    main(["backup", str(tmp_path / "copy.db"), "--data", str(simulated.data)])
    simulated.stop()
    main(["restore", str(tmp_path / "copy.db"), "--data", str(simulated.data)])
    simulated.start()
    before = simulated.health()

    status, answer = simulated.native("leavesafemode", {})

    assert (before["status"], status, answer) == ("degraded", 200, {})
    assert simulated.health()["status"] == "ok"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"purge": "yes"}', b'{"purge": null}', b'{"purg": true}'])
def test_an_invalid_request_is_refused(shared, body):
    status, answer = shared.native("leavesafemode", body)

    assert status == 400
    assert answer["__type"] == "ClientException"
