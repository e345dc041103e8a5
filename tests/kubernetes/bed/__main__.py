"""A Kubernetes cluster of two nodes on this machine, for `make test-kubernetes`. Needs root.

    python -m tests.kubernetes.bed up | down | run COMMAND... | available

`run` brings the cluster up, runs the command in its network with BATCHQ_TEST_KUBERNETES set, and takes it down. It
waits while another `run` uses the cluster of this machine.
`available` exits with 0 if all programs are there.

The programs are in the folder of BATCHQ_KUBERNETES_PROGRAMS, or else in ../shared/kubernetes/bin: `bin/` with etcd,
kube-apiserver, kube-controller-manager, kubelet and a static busybox, and `cni/` with bridge, host-local and loopback;
or an archive `bed.tar.xz` of these two folders. containerd, runc, iproute2 and util-linux are those of the machine.

Each node is a containerd and a kubelet in network, mount, pid, ipc and uts namespaces of its own. Outside these only
network namespaces `bqt*`, cgroups `bqt-n*` and the folder STATE are created, and `down` removes them.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path

from tests.kubernetes.bed.images import write_images

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAMS = "BATCHQ_KUBERNETES_PROGRAMS"
STATE = Path("/run/batchq-bed")
LOCK = Path("/run/batchq-bed.run.lock")  # held by a run
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "batchq-kubernetes")
PREFIX = "bqt"  # of network namespaces and cgroups
NETWORK = "192.168.215"  # .10 the control plane, .11 and .12 the nodes
NODES = (1, 2)
ETCD = "http://127.0.0.1:23790"
CONTROL_PLANE = f"{NETWORK}.10"
SERVER = f"https://{CONTROL_PLANE}:443"  # KUBERNETES_SERVICE_PORT of each pod
SERVICES = "10.97.0"  # .1 is the API server for pods: no kube-proxy runs here
TOKEN = "bed-token"  # of a cluster that only this machine reaches
PATIENCE = 120.0  # seconds
AWAY_AFTER = 12  # seconds without a sign of the kubelet
SYSTEM_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "runc", "ip", "nsenter", "unshare", "openssl")
OUR_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "unshare")
STARTED = []  # the processes, which outlive the calls that started them
KUBECONFIG = f"""apiVersion: v1
kind: Config
current-context: bed
contexts: [{{name: bed, context: {{cluster: bed, user: admin}}}}]
clusters: [{{name: bed, cluster: {{server: "{SERVER}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: {TOKEN}}}}}]
"""


def folder():
    """The folder with `bin` and `cni`, unpacked first if it is an archive; None: there are no programs."""
    given = os.environ.get(PROGRAMS)
    source = Path(given) if given else ROOT.parent / "shared" / "kubernetes" / "bin"
    if (source / "bin" / "kube-apiserver").exists():
        return source
    archive = source / "bed.tar.xz"
    if not archive.exists():
        return None
    unpacked = CACHE / f"{archive.stat().st_size}"
    if not (unpacked / "complete").exists():
        unpacked.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="tar")
        (unpacked / "complete").touch()
    return unpacked


def is_available():
    return os.geteuid() == 0 and all(map(shutil.which, SYSTEM_PROGRAMS)) and folder() is not None


def call(*command):
    subprocess.run([*map(str, command)], check=True)


def namespace(index):
    return f"{PREFIX}{index}"


def node_name(index):
    return f"bed-n{index}"


def make_network():
    """A bridge in a namespace of its own, and a namespace for the control plane and for each node."""
    switch = f"{PREFIX}-sw"
    call("ip", "netns", "add", switch)
    call("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
    call("ip", "-n", switch, "link", "set", "br0", "up")
    for index in (0, *NODES):
        name = namespace(index)
        call("ip", "netns", "add", name)
        call("ip", "-n", switch, "link", "add", f"p{index}", "type", "veth", "peer", "name", "eth0", "netns", name)
        call("ip", "-n", switch, "link", "set", f"p{index}", "master", "br0", "up")
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", name, "addr", "add", f"{NETWORK}.{10 + index}/24", "dev", "eth0")
        call("ip", "-n", name, "link", "set", "eth0", "up")
        to_services = (
            ("addr", "add", f"{SERVICES}.1/32", "dev", "lo")
            if index == 0
            else (*("route", "add", f"{SERVICES}.1/32", "via", CONTROL_PLANE),)
        )
        call("ip", "-n", name, *to_services)
        for node in NODES:
            if node != index:
                call("ip", "-n", name, "route", "add", f"192.168.23{node}.0/24", "via", f"{NETWORK}.{10 + node}")


def start(name, *command, index=0):
    """Start a program in the network of the control plane or of a node, and record its process."""
    with (STATE / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{namespace(index)}", "--", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=STATE,
            start_new_session=True,
        )
    (STATE / f"{name}.pid").write_text(str(process.pid))
    STARTED.append(process)


def request(path, method="GET", body=None):
    """The reply of the API server to a request of this bed's user, made in its network; None: an error or no reply.

    The body of a PATCH is a merge patch.
    """
    program = (
        "import ssl, sys, urllib.request as u\n"
        "url, token, method, kind, body = sys.argv[1:]\n"
        "headers = {'Authorization': 'Bearer ' + token, 'Content-Type': f'application/{kind}'}\n"
        "asked = u.Request(url, headers=headers, method=method, data=body.encode() or None)\n"
        "print(u.urlopen(asked, timeout=5, context=ssl._create_unverified_context()).read().decode())"
    )
    kind = "merge-patch+json" if method == "PATCH" else "json"
    text = "" if body is None else json.dumps(body)
    command = ["nsenter", f"--net=/run/netns/{namespace(0)}", "--", sys.executable, "-c", program]
    done = subprocess.run(
        [*command, f"{SERVER}{path}", TOKEN, method, kind, text], check=False, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else None


def wait_for(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not become ready: see {STATE}/*.log")
        time.sleep(0.2)


def nodes_are_ready():
    items = json.loads(request("/api/v1/nodes") or '{"items": []}')["items"]
    conditions = [condition for node in items for condition in node["status"].get("conditions", ())]
    ready = [condition for condition in conditions if condition["type"] == "Ready" and condition["status"] == "True"]
    return len(ready) == len(NODES)


def up():
    down()
    programs = folder()
    STATE.mkdir(parents=True)
    (STATE / "programs").symlink_to(programs.resolve())
    images = STATE / "images"
    write_images(programs / "bin" / "busybox", images)
    make_network()
    (STATE / "kubeconfig").write_text(KUBECONFIG)
    (STATE / "tokens").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    call("openssl", "genrsa", "-out", STATE / "account.key", "2048")
    call("openssl", "rsa", "-in", STATE / "account.key", "-pubout", "-out", STATE / "account.pub")
    start_etcd(programs / "bin")
    start_api_server(programs / "bin")
    wait_for("the API server", lambda: (request("/readyz") or "").strip() == "ok")
    for index in NODES:
        start_node(index)
    start_controllers(programs / "bin")
    wait_for("a node", nodes_are_ready)
    wait_for(
        "a service account", lambda: "uid" in (request("/api/v1/namespaces/default/serviceaccounts/default") or "")
    )
    print(f"the cluster is ready: {STATE}/kubeconfig, in network namespace {namespace(0)}")


def start_node(index):
    """Start a node with the disk that it had, as power on does."""
    environment = {
        "PROGRAMS": (STATE / "programs").resolve(),
        "STATE": STATE,
        "NAME": node_name(index),
        "CGROUP": f"{PREFIX}-n{index}",
        "ADDRESS": f"{NETWORK}.{10 + index}",
        "PODS": f"192.168.23{index}.0/24",
        "OUTER": Path("/proc/self/ns/mnt").readlink(),
    }
    given = [f"{name}={value}" for name, value in environment.items()]
    own = ("unshare", "--uts", "--mount", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child=SIGKILL")
    start(f"n{index}", *own, "env", *given, "bash", HERE / "node.sh", index=index)


def start_etcd(programs):
    start(
        "etcd",
        programs / "etcd",
        "--data-dir=etcd",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        "--listen-peer-urls=http://127.0.0.1:23800",
        "--unsafe-no-fsync",
    )


def start_api_server(programs):
    start(
        "kube-apiserver",
        programs / "kube-apiserver",
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={CONTROL_PLANE}",
        "--secure-port=443",
        "--cert-dir=certs",
        "--token-auth-file=tokens",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICES}.0/24",
        "--allow-privileged=true",
        "--service-account-key-file=account.pub",
        "--service-account-signing-key-file=account.key",
        "--service-account-issuer=https://bed",
        "--kubelet-preferred-address-types=InternalIP",
        *(["--insecure-port=0"] if is_old(programs) else []),
    )


def start_controllers(programs):
    start(
        "kube-controller-manager",
        programs / "kube-controller-manager",
        "--kubeconfig=kubeconfig",
        "--service-account-private-key-file=account.key",
        "--root-ca-file=certs/apiserver.crt",
        "--use-service-account-credentials=false",
        "--leader-elect=false",
        "--cert-dir=certs",
        f"--node-monitor-grace-period={AWAY_AFTER}s",
        "--node-monitor-period=1s",
        *(["--port=0"] if is_old(programs) else []),
    )


def restart(name):
    """Kill etcd or the API server, as a crash does, and start it again with its data."""
    end(int((STATE / f"{name}.pid").read_text()))
    {"etcd": start_etcd, "kube-apiserver": start_api_server}[name](STATE / "programs" / "bin")


def kill_on_nodes(program, nodes=NODES):
    """Kill the containerd or the kubelet of these nodes, as a crash does. The node starts it again."""
    for pid in processes_on_nodes(program, nodes):
        os.kill(pid, signal.SIGKILL)


def processes_on_nodes(program, nodes=NODES):
    """The processes of a program, `containerd` or `kubelet`, on these nodes."""
    for index in nodes:
        own = {
            "containerd": f"{STATE}/{node_name(index)}/containerd.toml",
            "kubelet": f"--hostname-override={node_name(index)}",
        }
        for process in Path("/proc").glob("[0-9]*"):
            arguments = command_of(process.name).split("\0")
            if Path(arguments[0]).name == program and own[program] in arguments:
                yield int(process.name)


def load_image(name):
    """Copy an image of this machine's Docker engine to each node."""
    archive = STATE / "images" / "loaded.tar"
    call("docker", "save", "--output", archive, name)
    try:
        for pid in processes_on_nodes("containerd"):
            inside = ("nsenter", f"--target={pid}", "--mount", "--pid", "--")
            call(*inside, "ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", archive)
    finally:
        archive.unlink()


def is_old(programs):
    """Whether the programs are older than Kubernetes 1.24, which removed flags."""
    version = subprocess.run([programs / "kube-apiserver", "--version"], check=True, capture_output=True, text=True)
    return int(version.stdout.split(".")[1]) < 24


def down():
    """Remove all that `up` made. May be called at any time. Only processes that `up` recorded are ended."""
    for file in STATE.glob("*.pid"):
        end(int(file.read_text() or 0))
    for name in (f"{PREFIX}-sw", *(namespace(index) for index in (0, *NODES))):
        if Path("/run/netns", name).exists():
            call("ip", "netns", "del", name)
    wait_for("the removal of cgroups", are_cgroups_removed)
    if STATE.exists():
        wait_until_removed(STATE)


def are_cgroups_removed():
    """Remove the cgroups of the nodes, whose processes have ended or are about to end."""
    roots = [*Path("/sys/fs/cgroup").glob(f"*/{PREFIX}-n*")]
    for root in roots:
        for found, _, _ in os.walk(root, topdown=False):
            with suppress(OSError):
                Path(found).rmdir()
    return not any(root.exists() for root in roots)


def end(pid):
    """Kill a process of the bed. A node ends with the process that made its namespaces."""
    command = command_of(pid)
    if any(program in command for program in OUR_PROGRAMS):
        os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            wait_for(f"the end of process {pid}", lambda: not command_of(pid))


def command_of(pid):
    """The command of a process; empty: it has ended, whether or not its parent has noticed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until_removed(path):
    def is_removed():
        shutil.rmtree(path, ignore_errors=True)
        return not path.exists()

    wait_for(f"the removal of {path}", is_removed)


def run(command):
    environment = os.environ | {"BATCHQ_TEST_KUBERNETES": str(STATE / "kubeconfig")}
    inside = ["nsenter", f"--net=/run/netns/{namespace(0)}", "--", *command]
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            up()
            with subprocess.Popen(inside, env=environment, start_new_session=True) as process:
                try:
                    return process.wait()
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        finally:
            down()


def main(verb, *command):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is removed
    match verb:
        case "up":
            up()
        case "down":
            down()
        case "run":
            return run(command)
        case "available":
            return 0 if is_available() else 1
        case _:
            raise SystemExit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
