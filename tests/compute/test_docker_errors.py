"""Errors of the SDK, and how they are classified."""

import json

import pytest
from docker.errors import APIError, DockerException, ImageNotFound, NotFound, StreamParseError
from requests import Response
from requests.exceptions import ChunkedEncodingError, JSONDecodeError, ReadTimeout
from requests.exceptions import ConnectionError as NoConnection
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from batchq.compute.docker.errors import (
    agent_reason,
    create_error,
    message_of,
    redact_error,
    start_error,
    translate_errors,
    was_not_sent,
)
from batchq.errors import (
    ContainerGone,
    EngineUnknown,
    ImageMissing,
    StartInterrupted,
    StartRefused,
)
from batchq.ports.runtime import ContainerState

CREATED = ContainerState.CREATED
TRANSPORT = (
    'connection error: desc = "transport: error while dialing: dial unix:///run/containerd/containerd.sock: timeout": '
    "unavailable"
)


def answer(status, explanation, kind=APIError):
    response = Response()
    response.status_code = status
    return kind(f"{status} Client Error", response=response, explanation=explanation)


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeout("Read timed out."),
        NoConnection("Read timed out."),
        ChunkedEncodingError("Connection broken"),
        ProtocolError("Connection aborted."),
        ReadTimeoutError(None, "/", "Read timed out."),
        JSONDecodeError("Expecting value", "<html>", 0),
        json.JSONDecodeError("Expecting value", "<html>", 0),
        StreamParseError("garbage"),
        ConnectionRefusedError(111, "Connection refused"),
        PermissionError(13, "Permission denied"),
        DockerException("Error while fetching server API version"),
        answer(503, "overloaded"),
        answer(404, "no such container", NotFound),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.fault("EN23", "EN24")
def test_an_unclassified_error_is_unknown(error):
    with pytest.raises(EngineUnknown, match=r"^kill: ") as unknown, translate_errors("kill"):
        raise error

    assert unknown.value.__cause__ is error


def test_a_classified_error_is_passed_on():
    with pytest.raises(ContainerGone), translate_errors("kill"):
        raise ContainerGone("gone")


def test_programming_errors_are_not_hidden():
    with pytest.raises(KeyError), translate_errors("kill"):
        raise KeyError("Id")


def test_the_engines_text_is_reported():
    assert message_of(answer(500, "driver failed\n  programming   port")) == "driver failed programming port"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("Get https://me:s3cret@registry/v2/: no such host", "Get https://***@registry/v2/: no such host"),
        ("Authorization: Bearer s3cret refused", "Authorization: *** refused"),
        ('{"Authorization": "Basic s3cret"}', '{"Authorization": "***"}'),
        ("bad header Basic dXNlcjpwYXNzd29yZA==", "bad header Basic ***"),
        ("GET /v2/?access_token=s3cret&service=x: 401", "GET /v2/?access_token=***&service=x: 401"),
        ("X-Amz-Signature=s3cret X-Amz-Security-Token=s3cret", "X-Amz-Signature=*** X-Amz-Security-Token=***"),
        ('{"password": "s3cret"} refused', '{"password": "***"} refused'),
    ],
)
def test_credentials_are_removed_from_texts(words, shown):
    assert message_of(answer(500, words)) == shown


def test_text_that_only_resembles_credentials_is_kept():
    words = "repository does not exist or may require 'docker login': basic auth is needed, secret not found"

    assert message_of(answer(404, words)) == words


def test_a_reason_is_cut_at_awss_maximum():
    text = agent_reason("CannotStartContainerError", answer(500, "x" * 5000))

    assert text.startswith("CannotStartContainerError: Error response from daemon: xxx")
    assert len(text) == 1024


def test_a_missing_image_can_be_pulled():
    assert isinstance(create_error(answer(404, "No such image: a:b", ImageNotFound)), ImageMissing)


@pytest.mark.parametrize(("status", "certain"), [(400, True), (403, True), (404, False), (500, False)])
def test_a_refused_create_has_the_engines_text(status, certain):
    refused = create_error(answer(status, "invalid mount config", NotFound if status == 404 else APIError))

    assert isinstance(refused, StartRefused)
    assert refused.reason == "CannotCreateContainerError: Error response from daemon: invalid mount config"
    assert (refused.certain, refused.exit_code) == (certain, None)


def test_a_failure_below_the_engine_does_not_refuse_a_create():
    assert isinstance(create_error(answer(500, TRANSPORT)), EngineUnknown)


@pytest.mark.parametrize("status", [400, 404, 500])
@pytest.mark.parametrize(("exit_code", "certain"), [(126, True), (127, True), (128, False), (0, False)])
@pytest.mark.fault("EN21")
def test_a_failed_start_is_classified_by_the_inspected_exit_code(status, exit_code, certain):
    words = 'exec: "none": executable file not found in $PATH'
    refused = start_error(answer(status, words), state=CREATED, exit_code=exit_code)

    assert isinstance(refused, StartRefused)
    assert refused.reason == f"CannotStartContainerError: Error response from daemon: {words}"
    assert (refused.certain, refused.exit_code) == (certain, exit_code or None)


@pytest.mark.parametrize("words", [TRANSPORT, "failed to create shim task: context deadline exceeded: unknown"])
@pytest.mark.fault("EN22")
def test_a_failure_below_the_engine_does_not_refuse_a_start(words):
    assert isinstance(start_error(answer(500, words), state=CREATED, exit_code=128), EngineUnknown)


@pytest.mark.parametrize(
    "words",
    [
        f"task {'7d6e50d4' * 8}: already exists",
        f"failed to start shim: mkdir /run/io.containerd.runtime.v2.task/moby/{'7d6e50d4' * 8}: file exists: unknown",
        "id already in use",
        "transport is closing: unavailable",
        "error reading from server: EOF: unavailable",
        "ttrpc: closed: unknown",
        "rpc error: code = Unknown: Unavailable",
        "context deadline exceeded",
    ],
)
@pytest.mark.fault("EN22")
def test_a_start_that_may_have_run_the_program_is_interrupted(words):
    assert isinstance(start_error(answer(500, words), state=CREATED, exit_code=128), StartInterrupted)


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), FileNotFoundError(2, "no socket")])
def test_a_call_without_a_connection_was_not_sent(error):
    lost = NoConnection(error)
    lost.__cause__ = error

    assert was_not_sent(lost)
    assert not was_not_sent(NoConnection(ConnectionResetError(104, "reset")))


def test_text_of_a_user_does_not_make_a_start_interrupted():
    words = "unable to find user task 7: already exists: no matching entries in passwd file"

    assert isinstance(start_error(answer(500, words), state=CREATED, exit_code=128), StartRefused)


@pytest.mark.parametrize("words", ["unable to find user transport: no such user", "unable to find user unavailable"])
def test_the_name_of_a_user_is_not_a_failure_below_the_engine(words):
    assert isinstance(start_error(answer(500, words), state=CREATED, exit_code=128), StartRefused)


def test_text_of_a_user_does_not_make_a_definite_refusal_uncertain():
    refused = start_error(answer(400, 'exec: "dial unix": not found'), state=CREATED, exit_code=127)

    assert isinstance(refused, StartRefused)
    assert refused.certain


@pytest.mark.parametrize("state", [None, ContainerState.GOING])
@pytest.mark.parametrize("status", [404, 409, 500])
def test_a_start_of_an_absent_container_is_reported(status, state):
    assert isinstance(start_error(answer(status, "no such container"), state=state, exit_code=0), ContainerGone)


def test_a_start_in_conflict_is_inspected_again():
    assert isinstance(start_error(answer(409, "marked for removal"), state=CREATED, exit_code=0), EngineUnknown)


@pytest.mark.parametrize("state", [ContainerState.RUNNING, ContainerState.EXITED])
def test_a_failed_start_of_a_running_container_succeeded(state):
    assert start_error(answer(500, "broken pipe"), state=state, exit_code=0) is None


def test_a_secret_quoted_by_the_engine_is_removed():
    error = answer(500, "dial tcp: lookup logs.example on 10.0.0.1: no such host; got udp://logs.example:51")

    redact_error(error, ["udp://logs.example:51"])

    assert message_of(error) == "dial tcp: lookup *** on 10.0.0.1: no such host; got ***"


@pytest.mark.parametrize("secrets", [[], [""], ["no"]], ids=str)
def test_text_without_secrets_is_kept(secrets):
    error = answer(500, "no such host")

    redact_error(error, secrets)

    assert message_of(error) == "no such host"
