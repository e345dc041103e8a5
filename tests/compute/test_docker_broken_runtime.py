"""A real engine whose OCI runtime cannot set up cgroups, as on a host that has lost them."""

import pytest

from batchq.errors import StartRefused
from tests.support.containers import docker_runtime, launch
from tests.support.second_engine import second_engine

pytestmark = pytest.mark.docker

RUNTIME = r"""#!/bin/sh
if [ -e {broken} ]; then
    for it in "$@"; do
        [ "$before" = --log ] && log=$it
        [ "$it" = create ] && echo '{{"level":"error","msg":"runc create failed: {text}"}}' >"$log" && exit 1
        before=$it
    done
fi
exec runc "$@"
"""
CGROUPS = (
    "unable to start container process: unable to apply cgroup configuration: "
    "mkdir /sys/fs/cgroup/cpuset/docker: no such file or directory"
)


@pytest.mark.fault("CO04")
async def test_a_broken_runtime_is_a_failure_of_the_host(tmp_path):
    broken, wrapper = tmp_path / "broken", tmp_path / "runtime"
    wrapper.write_text(RUNTIME.format(broken=broken, text=CGROUPS))
    wrapper.chmod(0o755)
    options = ("--add-runtime", f"wrapper={wrapper}", "--default-runtime", "wrapper")
    with second_engine(options=options) as engine:
        async with docker_runtime(engine.url) as runtime:
            it = launch(command=("sh", "-c", "true"))
            await runtime.create(it)
            broken.touch()

            with pytest.raises(StartRefused, match="unable to apply cgroup configuration") as refused:
                await runtime.start(it.tag)

            assert (refused.value.exit_code, refused.value.certain, refused.value.host_failed) == (127, False, True)
            broken.unlink()
            await runtime.start(it.tag)
