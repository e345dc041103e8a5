"""TorchX: an application of several roles is a gang of nodes, its log the log of one node."""


def test_torchx_runs_an_application_as_a_gang(client):
    told = client.tells("torchx_app", "batchq-test:latest")

    assert told["state"] == "SUCCEEDED"
    assert [line.strip() for line in told["lines"]] == ["main"]
    assert told["listed"] == 1
