#!/bin/bash
# Process 1 of one node of the bed, in mount, pid, ipc, uts and network namespaces of its own: a containerd and a kubelet.
# The environment: PROGRAMS, STATE, NAME, CGROUP, ADDRESS, PODS, and OUTER, the mount namespace of the machine.
set -u

# The mounts below hide /sys and /var/log, so they must never be made in the mount namespace of the machine.
if [ "$(readlink /proc/self/ns/mnt)" = "$OUTER" ] || [ $$ != 1 ]; then
    echo "node.sh: not in namespaces of its own" >&2
    exit 1
fi

own=$STATE/$NAME
mkdir -p "$own"/{cgroups,cni,log/pods,log/containers,containerd,kubelet,addresses,cni-state,proc} /run/containerd /run/netns
rm -rf "$own/addresses"/* # of pods that ended with the power
hostname "$NAME"
mount --make-rprivate /
# sysfs of this network namespace, with the cgroups of the machine in it.
mount --rbind /sys/fs/cgroup "$own/cgroups"
mount -t sysfs sysfs /sys
mount --move "$own/cgroups" /sys/fs/cgroup
mount -t tmpfs tmpfs /run/containerd
mount -t tmpfs tmpfs /run/netns
mount --bind "$own/log" /var/log
mkdir -p /var/lib/cni
mount --bind "$own/cni-state" /var/lib/cni
mount --make-rshared / # kubelets need mount propagation; it ends at this namespace
echo 1 >/proc/sys/net/ipv4/ip_forward # of this network namespace

# A kubelet would set these for the whole machine. It finds the values that it wants, and changes nothing.
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1 vm/panic_on_oom=0 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    path=${setting%%=*}
    [ -e "/proc/sys/$path" ] || continue
    copy=$own/proc/${path//\//.}
    echo "${setting#*=}" >"$copy"
    mount --bind "$copy" "/proc/sys/$path"
done

for controller in cpu cpuacct cpuset memory devices freezer blkio pids systemd; do
    [ -d "/sys/fs/cgroup/$controller" ] && mkdir -p "/sys/fs/cgroup/$controller/$CGROUP"
done
if [ -d "/sys/fs/cgroup/cpuset/$CGROUP" ]; then
    for file in cpus mems; do
        cat "/sys/fs/cgroup/cpuset/cpuset.$file" >"/sys/fs/cgroup/cpuset/$CGROUP/cpuset.$file"
    done
    echo 1 >"/sys/fs/cgroup/memory/$CGROUP/memory.use_hierarchy" 2>/dev/null
fi

cat >"$own/cni/10-bed.conflist" <<C
{"cniVersion": "0.4.0", "name": "bed", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}],
          "dataDir": "$own/addresses"}}]}
C
if containerd --version | grep -q ' v\?2\.'; then
    cat >"$own/containerd.toml" <<C
version = 3
root = "$own/containerd"
state = "/run/containerd/state"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/batchq-pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["$PROGRAMS/cni"]
  conf_dir = "$own/cni"
C
else
    cat >"$own/containerd.toml" <<C
version = 2
root = "$own/containerd"
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/batchq-pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$PROGRAMS/cni"
  conf_dir = "$own/cni"
C
fi
# The limits of requests are the defaults since 1.27. With those before (5 and 10) ends are reported 1.5 s later.
cat >"$own/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
enforceNodeAllocatable: []
failSwapOn: false
readOnlyPort: 0
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
kubeAPIQPS: 50
kubeAPIBurst: 100
eventRecordQPS: 50
eventBurst: 100
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
C
socket=unix:///run/containerd/containerd.sock
flags=("--config=$own/kubelet.yaml" "--kubeconfig=$STATE/kubeconfig" "--hostname-override=$NAME" "--node-ip=$ADDRESS"
    "--resolv-conf=" "--container-runtime-endpoint=$socket" "--root-dir=$own/kubelet" "--cert-dir=$own/kubelet/pki")
minor=$("$PROGRAMS/bin/kubelet" --version | cut -d. -f2)
[ "$minor" -lt 24 ] && flags+=(--container-runtime=remote "--image-service-endpoint=$socket")
[ "$minor" -ge 31 ] && echo "failCgroupV1: false" >>"$own/kubelet.yaml"

# Start a program again whenever it ends, as tests kill it. Its output goes to a file.
keep() {
    local log=$1
    shift
    while :; do
        "$@" >>"$log" 2>&1
        sleep 0.2
    done
}

keep "$own/containerd.log" containerd -c "$own/containerd.toml" -l warn &
images() { ctr -a /run/containerd/containerd.sock "$@"; }
while ! images version >/dev/null 2>&1; do sleep 0.05; done
for archive in "$STATE"/images/*.tar; do images -n k8s.io images import "$archive" >/dev/null; done
keep "$own/kubelet.log" "$PROGRAMS/bin/kubelet" "${flags[@]}" &
while :; do wait; sleep 0.1; done
