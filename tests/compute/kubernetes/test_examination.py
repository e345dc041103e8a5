"""What `batchq doctor` learns about a cluster, and what it finds wrong."""

import asyncio
import re
from pathlib import Path

import yaml

from batchq.compute.kubernetes.examination import CLUSTER_RIGHTS, DRAIN_RIGHTS, NAMESPACE_RIGHTS, examine_cluster
from batchq.doctor.environment import clock_findings, engine_findings
from batchq.doctor.facts import Level, RuntimeFault, UnavailableRuntime
from batchq.system.clock import SystemClock
from tests.doctor.installation import facts
from tests.support.kubernetes import kubeconfig, served
from tests.support.kubernetes_api import ModelCluster, node

ROOT = Path(__file__).parents[3]


async def examined(tmp_path, cluster, **options):
    async with served(cluster) as url:
        file = kubeconfig(tmp_path, url)
        return await asyncio.to_thread(examine_cluster, file, SystemClock(), **options)


async def findings(tmp_path, cluster, **options):
    found = engine_findings([await examined(tmp_path, cluster, **options)])
    return [(finding.level, finding.message) for finding in found]


async def test_a_cluster_without_faults_has_one_finding(tmp_path):
    ((level, message),) = await findings(tmp_path, ModelCluster())

    assert level is Level.OK
    assert re.fullmatch(r"Kubernetes 1.36 responds at http://127.0.0.1:\d+, namespace jobs", message)


async def test_an_old_version_is_a_problem(tmp_path):
    ((level, message),) = await findings(tmp_path, ModelCluster(minor=29))

    assert level is Level.PROBLEM
    assert "Kubernetes 1.29" in message


async def test_missing_rights_are_named(tmp_path):
    cluster = ModelCluster()
    cluster.denied = {("create", "pods/exec", "jobs"), ("list", "nodes", ""), ("list", "pods", "")}

    found = await findings(tmp_path, cluster)

    assert (
        Level.PROBLEM,
        "these credentials may not create pods/exec in jobs, list nodes in the cluster; jobs fail or wait",
    ) in (found)
    assert [level for level, _ in found] == [Level.OK, Level.PROBLEM, Level.WARNING]


async def test_the_right_to_refuse_drains_is_needed_only_with_the_setting(tmp_path):
    cluster = ModelCluster()
    cluster.denied = {("create", "poddisruptionbudgets", "jobs")}

    assert [level for level, _ in await findings(tmp_path, cluster)] == [Level.OK]
    message = "these credentials may not create poddisruptionbudgets in jobs; jobs fail or wait"
    assert (Level.PROBLEM, message) in await findings(tmp_path, cluster, refuses_drains=True)


async def test_nodes_that_take_no_jobs_are_listed_with_their_reasons(tmp_path):
    cluster = ModelCluster()
    cluster.nodes = {
        "a": node("a"),
        "b": node("b", ready=False),
        "c": node("c", unschedulable=True),
        "d": node("d", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
        "e": node("e", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}]),
    }

    some = await findings(tmp_path, cluster)
    del cluster.nodes["a"], cluster.nodes["e"]
    all_of_them = await findings(tmp_path, cluster)
    cluster.nodes.clear()
    none = await findings(tmp_path, cluster)

    text = "b (not ready), c (cordoned), d (tainted gpu)"
    assert some[1:] == [(Level.WARNING, f"3 of 5 nodes take no jobs: {text}")]
    assert all_of_them[1:] == [(Level.PROBLEM, f"no node takes jobs: {text}")]
    assert none[1:] == [(Level.PROBLEM, "the cluster has no nodes")]


async def test_a_namespace_that_cannot_be_read_is_a_problem(tmp_path):
    cluster = ModelCluster()
    cluster.fault = lambda _method, path: (404, "not found") if path.endswith("/namespaces/jobs") else None

    found = await findings(tmp_path, cluster)

    assert found[1] == (Level.PROBLEM, "the namespace jobs cannot be read: not found; jobs wait")


async def test_a_clock_that_differs_is_found(tmp_path):
    class Behind(SystemClock):
        def now(self):
            return super().now() - self.behind

    from datetime import timedelta  # noqa: PLC0415 - only here

    clock = Behind()
    clock.behind = timedelta(seconds=60)
    async with served(ModelCluster()) as url:
        cluster = await asyncio.to_thread(examine_cluster, kubeconfig(tmp_path, url), clock)

    assert 57 < cluster.clock_offset < 61
    found = clock_findings(facts(engine=cluster))
    assert any("the container engine's clock is" in finding.message for finding in found)


def test_a_cluster_that_does_not_answer_and_a_kubeconfig_that_cannot_be_used_are_problems(tmp_path):
    absent = examine_cluster(kubeconfig(tmp_path, "http://127.0.0.1:9"), SystemClock())
    unusable = examine_cluster(str(tmp_path / "absent"), SystemClock())

    assert isinstance(absent, UnavailableRuntime)
    assert (absent.fault, unusable.fault) == (RuntimeFault.NOT_LISTENING, RuntimeFault.NOT_CONFIGURED)
    assert [finding.level for finding in engine_findings([absent, unusable])] == [Level.PROBLEM] * 2


def test_the_roles_of_the_manifest_are_the_rights_that_the_doctor_checks():
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rights.yaml").read_text())
    roles = {
        document["kind"]: document["rules"] for document in documents if document["kind"] in {"Role", "ClusterRole"}
    }

    assert rights_in(roles["Role"]) == {
        right: set(verbs) for right, verbs in {**NAMESPACE_RIGHTS, **DRAIN_RIGHTS}.items()
    }
    assert rights_in(roles["ClusterRole"]) == {right: set(verbs) for right, verbs in CLUSTER_RIGHTS.items()}


def rights_in(rules):
    return {resource: set(rule["verbs"]) for rule in rules for resource in rule["resources"]}
