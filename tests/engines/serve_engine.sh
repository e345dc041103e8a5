#!/usr/bin/env bash
# Run a container engine in the mount and network namespaces of the calling process; `engine.py` creates these namespaces.
#
#   serve_engine.sh docker|podman|rootless-docker|rootless-podman ROOT STATE [FLAG...]
#
# ROOT is the root directory of a Debian installation with the engine; / is this machine's own. STATE is the directory of the
# engine's socket and data, which has the same path inside and outside of ROOT. Flags are passed to dockerd or podman.
set -eu
kind=$1 root=$2 state=$3
shift 3

python3 -c '
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP: no tool needs to be installed
'
if [ "$root" != / ]; then
    mount --bind "$root" "$root" # the new root must be a mount point
    mount --make-private "$root"
    for folder in proc sys dev tmp; do mount --rbind "/$folder" "$root/$folder"; done
    # Not chroot: the root of a mount namespace is where `exec` in a container would run.
    mkdir -p "$root/old-root"
    cd "$root"
    pivot_root . old-root
    umount --lazy /old-root
fi
# crun 1.21 and later refuse a machine with the cgroup hierarchies of both versions. Only this namespace loses the mount.
umount /sys/fs/cgroup/unified 2>/dev/null || true
mount -t tmpfs run /run # hides the containerd of the machine, which dockerd would use
mkdir -p /run/lock

# Give STATE to a user with 65,536 further ids, whose engine gets the network of its containers by /dev/net/tun.
make_user() {
    mount -t tmpfs net /dev/net # the machine's own may be for root only
    mknod -m 666 /dev/net/tun c 10 200
    mkdir -p "$state/run" /home/runner
    if ! id -u runner >/dev/null 2>&1; then
        echo "runner:x:$user:$user::/home/runner:/bin/bash" >>/etc/passwd
        echo "runner:x:$user:" >>/etc/group
        echo runner:100000:65536 | tee /etc/subuid >/etc/subgid
    fi
    chown -R "$user:$user" /home/runner "$state"
    cd /home/runner
}

as_user() {
    exec setpriv --reuid "$user" --regid "$user" --init-groups /usr/bin/env -i PATH="$search_path" HOME=/home/runner \
        USER=runner XDG_RUNTIME_DIR="$state/run" PODMAN_IGNORE_CGROUPSV1_WARNING=1 "$@"
}

user=1000
search_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
case $kind in
docker)
    exec /usr/bin/env PATH="$search_path" dockerd --data-root "$state/data" --exec-root "$state/exec" \
        --pidfile "$state/engine.pid" --host "unix://$state/docker.sock" "$@"
    ;;
rootless-docker)
    make_user
    as_user DOCKERD_ROOTLESS_ROOTLESSKIT_NET=slirp4netns DOCKERD_ROOTLESS_ROOTLESSKIT_PORT_DRIVER=builtin \
        sh /usr/share/docker.io/contrib/dockerd-rootless.sh --data-root "$state/data" \
        --host "unix://$state/docker.sock" "$@"
    ;;
podman | rootless-podman)
    # A mount and not CONTAINERS_CONF: Podman 4 does not pass that variable to the process that cleans up after a container.
    mkdir -p /etc/containers
    mount --bind "$state/etc" /etc/containers
    if [ "$kind" = rootless-podman ]; then
        make_user
        as_user podman "$@" system service -t 0 "unix://$state/docker.sock"
    fi
    exec /usr/bin/env PATH="$search_path" HOME=/root PODMAN_IGNORE_CGROUPSV1_WARNING=1 \
        podman "$@" system service -t 0 "unix://$state/docker.sock"
    ;;
esac
