"""Where the cluster is: kubeconfigs, the files of a pod, tokens, TLS and versions."""

import base64
import ssl
import sys
from datetime import UTC, datetime, timedelta

import pytest
import trustme
import yaml

from batchq.compute.kubernetes.connection import (
    FixedToken,
    TokenFile,
    _in_cluster,
    check_version,
    load_cluster,
)
from batchq.errors import RuntimeUnknown, RuntimeUnreachable, StartImpossible
from tests.support.containers import launch
from tests.support.kubernetes import kubernetes_runtime, runtime_at
from tests.support.kubernetes_api import ModelCluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = {"server": "http://127.0.0.1:1/"}
USER = {"token": "t"}


def config(tmp_path, cluster=CLUSTER, user=USER, **context):
    file = tmp_path / "config"
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "contexts": [
                    {"name": "a", "context": {"cluster": "c", "user": "u"} | context},
                    {"name": "b", "context": {"cluster": "c", "user": "u", "namespace": "other"}},
                ],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return file


def encoded(blob):
    return base64.b64encode(blob.bytes()).decode()


def test_the_current_context_and_a_named_one(tmp_path):
    file = config(tmp_path)

    first, second = load_cluster(str(file)), load_cluster(f"{file}#b")

    assert (first.server, first.namespace, first.token) == ("http://127.0.0.1:1", "default", FixedToken(value="t"))
    assert second.namespace == "other"


def test_certificates_in_the_file_and_beside_it(tmp_path):
    authority = trustme.CA()
    client = authority.issue_cert("client@example.org")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    user = {
        "client-certificate-data": encoded(client.cert_chain_pems[0]),
        "client-key-data": encoded(client.private_key_pem),
    }
    cluster = {"server": "https://c:6443", "certificate-authority": "ca.pem", "tls-server-name": "api"}

    found = load_cluster(str(config(tmp_path, cluster, user)))

    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1
    assert found.tls_name == "api"


def test_a_certificate_is_not_verified_only_on_request(tmp_path):
    cluster = {"server": "https://c:6443", "insecure-skip-tls-verify": True}

    assert load_cluster(str(config(tmp_path, cluster))).tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("cluster", "user", "context", "error"),
    [
        (CLUSTER, {"exec": {"command": "aws"}}, "", "exec is not supported"),
        (CLUSTER, {"auth-provider": {"name": "gcp"}}, "", "auth-provider is not supported"),
        (CLUSTER, {"username": "u", "password": "p"}, "", "username is not supported"),
        (CLUSTER | {"proxy-url": "http://p"}, USER, "", "proxy-url is not supported"),
        ({"server": "c:6443"}, USER, "", "is not a URL"),
        (CLUSTER, USER, "#nowhere", "contexts has no entry 'nowhere'"),
        ({"server": "https://c", "certificate-authority": "absent.pem"}, USER, "", "No such file"),
        ({"server": "https://c", "certificate-authority-data": "?"}, USER, "", "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused_at_the_start(tmp_path, cluster, user, context, error):
    with pytest.raises(StartImpossible, match=error):
        load_cluster(f"{config(tmp_path, cluster, user)}{context}")


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "contexts: 7"])
def test_a_file_that_is_no_kubeconfig_is_refused_at_the_start(tmp_path, text):
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(StartImpossible):
        load_cluster(str(file))
    with pytest.raises(StartImpossible):
        load_cluster(str(tmp_path / "absent"))


def test_without_pyyaml_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)

    with pytest.raises(StartImpossible, match=r"install `batchq\[kubernetes\]`"):
        load_cluster(str(tmp_path / "config"))


def test_the_service_account_of_a_pod(tmp_path):
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("jobs")

    found = _in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)

    assert (found.server, found.namespace, found.token.read(NOW)) == ("https://[fd00::1]:443", "jobs", "first")
    with pytest.raises(StartImpossible, match="does not run in a Kubernetes cluster"):
        _in_cluster({}, tmp_path)


def test_a_mounted_token_is_read_again_after_a_minute(tmp_path):
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)
    assert token.read(NOW) == "first"

    file.write_text("second")

    assert token.read(NOW + timedelta(seconds=59)) == "first"
    assert token.read(NOW + timedelta(seconds=60)) == "second"


@pytest.mark.parametrize(("minor", "supported"), [("30", True), ("36+", True), ("29", False), ("20", False)])
def test_servers_older_than_1_30_are_refused_but_for_tests(minor, supported):
    reply = {"major": "1", "minor": minor}

    assert check_version(reply, allow_old=True)[0] == 1
    if supported:
        assert check_version(reply, allow_old=False) == (1, int(minor.strip("+")))
    else:
        with pytest.raises(StartImpossible, match=r"1.30 or newer is needed"):
            check_version(reply, allow_old=False)


def test_a_server_without_a_version_is_refused():
    with pytest.raises(StartImpossible):
        check_version({}, allow_old=True)


async def test_no_pod_is_created_on_a_server_that_is_too_old():
    async with kubernetes_runtime(ModelCluster(minor=29)) as (runtime, cluster):
        with pytest.raises(RuntimeUnknown, match=r"1.29 is not supported"):
            await runtime.create(launch())
        with pytest.raises(RuntimeUnknown):
            await runtime.survey()
        with pytest.raises(StartImpossible):
            await runtime.check_server()

        assert cluster.pods == {}


async def test_a_server_that_is_absent_is_unreachable():
    runtime = runtime_at("http://127.0.0.1:9")

    with pytest.raises(RuntimeUnreachable):
        await runtime.survey()
    await runtime.close()


async def test_credentials_that_the_server_does_not_accept_have_no_effect(model):
    runtime, cluster = model
    cluster.fault = lambda _method, _path: (401, "Unauthorized")

    with pytest.raises(RuntimeUnreachable, match="does not accept the credentials"):
        await runtime.survey()
