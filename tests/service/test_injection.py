"""Texts of callers are returned unchanged, and are never mistaken for texts of batchq."""

import http.client
from contextlib import closing
from urllib.parse import quote

import pytest

HOSTILE = "\r\nforged 2026 ERROR \x1b[31m \u202e <script>alert(1)</script> {0} %s %(x)s '; DROP TABLE jobs; --"


@pytest.mark.fault("SE12")
def test_a_path_forges_no_log_line(shared):
    with closing(http.client.HTTPConnection(shared.url.removeprefix("http://"))) as connection:
        connection.request("POST", f"/v1/{quote(HOSTILE)}", "{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()

        assert (answer.status, answer.headers["Content-Type"]) == (400, "application/json")
        assert b"\x1b" not in answer.read()

    assert_no_forgery(shared.log)


PATHS = ["../../etc/passwd", "/etc/passwd", "text/default/../../../batchq.db", "%2e%2e%2f", "a\0b", "a" * 512]


@pytest.mark.fault("IN19")
@pytest.mark.parametrize("name", PATHS, ids=lambda value: ascii(value)[:20])
def test_the_name_of_a_log_stream_is_no_path(shared, name):
    logs = shared.client("logs")

    with pytest.raises(logs.exceptions.ResourceNotFoundException):
        logs.get_log_events(logGroupName="/aws/batch/job", logStreamName=name)


def assert_no_forgery(log):
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.startswith("forged") or not line.isprintable()] == []
    assert lines
