"""What is common to all commands: how they say that they were told wrong."""

import pytest

from batchq.cli.main import main

MISUSED = 2


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (("BATCHQ_PORT", "many"), "--port: Input should be a valid integer"),
        (("BATCHQ_VOLUMES", "/srv"), 'a variable that is a list is JSON, as ["a", "b"]'),
    ],
)
def test_a_variable_that_is_wrong_is_told_in_a_line(monkeypatch, capsys, variable, said):
    monkeypatch.setenv(*variable)

    assert main(["key", "list"]) == MISUSED

    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
