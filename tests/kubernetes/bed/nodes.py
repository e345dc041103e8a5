"""What happens to a node of the bed: faults of the machine, and what administrators do.

    python -m tests.kubernetes.bed.nodes OPERATION NUMBER

The operation is one of `power-off`, `power-on`, `cut`, `heal`, `replace-disk`, `cordon`, `uncordon`, `drain` and
`delete`; the number is 1 or 2.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.kubernetes.bed.__main__ import (
    NODES,
    PREFIX,
    STATE,
    call,
    command_of,
    is_old,
    kill_on_nodes,
    node_name,
    nodes_are_ready,
    request,
    start_node,
    wait_for,
    wait_until_removed,
)

DISK = ("containerd", "kubelet", "log", "cni-state", "addresses")  # what a node keeps while its power is off
FINISHED = ("Succeeded", "Failed")


def power_off(index):
    """Kill the kubelet, containerd and all containers of the node at the same moment.

    The processes of a node are in one pid namespace: the kernel kills them with the first one, which ends as the last.
    """
    outer = int((STATE / f"n{index}.pid").read_text())
    if not command_of(outer):
        return
    (first,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    os.kill(int(first), signal.SIGKILL)
    wait_for(f"the end of node {index}", lambda: not command_of(outer))


def power_on(index):
    if not command_of(int((STATE / f"n{index}.pid").read_text())):
        start_node(index)


def replace_disk(index):
    """Power off, an empty disk, power on."""
    power_off(index)
    for name in DISK:
        wait_until_removed(STATE / node_name(index) / name)
    power_on(index)


def cut(index):
    """Take the node off the network. Its containers run on."""
    call("ip", "-n", f"{PREFIX}-sw", "link", "set", f"p{index}", "down")


def heal(index):
    call("ip", "-n", f"{PREFIX}-sw", "link", "set", f"p{index}", "up")


def cordon(index):
    assert request(path_of(index), "PATCH", {"spec": {"unschedulable": True}}), "the node was not cordoned"


def uncordon(index):
    assert request(path_of(index), "PATCH", {"spec": {"unschedulable": None}}), "the node was not uncordoned"


def drain(index):
    """Cordon the node, and evict its pods, as `kubectl drain` does."""
    cordon(index)
    version = "v1beta1" if is_old(STATE / "programs" / "bin") else "v1"
    for pod in pods_on(index):
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        eviction = {"apiVersion": f"policy/{version}", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        assert request(path, "POST", eviction), f"pod {name} was not evicted"


def delete(index):
    """Delete the object of the node. A kubelet that runs registers the node only when it starts again."""
    assert request(path_of(index), "DELETE"), "the node was not deleted"


def restore(index):
    """Undo everything, and wait until the nodes of the bed are ready."""
    heal(index)
    power_on(index)
    if request(path_of(index)) is None:
        kill_on_nodes("kubelet", [index])
        wait_for(f"the registration of node {index}", lambda: request(path_of(index)) is not None)
    uncordon(index)
    wait_for("a node", nodes_are_ready)


def finish_deletions(index):
    """Remove the pods of the node that were deleted. A kubelet of 1.20 that is new to them takes a minute."""
    for pod in pods_on(index):
        if pod["metadata"].get("deletionTimestamp"):
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            request(path, "DELETE", {"gracePeriodSeconds": 0})


def pods_on(index):
    """The pods of the node that have not ended."""
    pods = json.loads(request(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node_name(index)}"))["items"]
    return [pod for pod in pods if pod["status"].get("phase") not in FINISHED]


def path_of(index):
    return f"/api/v1/nodes/{node_name(index)}"


OPERATIONS = {
    "power-off": power_off,
    "power-on": power_on,
    "cut": cut,
    "heal": heal,
    "replace-disk": replace_disk,
    "cordon": cordon,
    "uncordon": uncordon,
    "drain": drain,
    "delete": delete,
}


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in OPERATIONS or sys.argv[2] not in map(str, NODES):
        raise SystemExit(__doc__)
    OPERATIONS[sys.argv[1]](int(sys.argv[2]))
