"""TorchX runs an application of two roles as a multi-node job. Prints the outcome."""

import json
import sys
import time

from torchx.runner import get_runner
from torchx.specs import AppDef, Resource, Role, is_terminal


def role(name, script):
    size = Resource(cpu=1, gpu=0, memMB=64)
    return Role(name=name, image=sys.argv[1], entrypoint="sh", args=["-c", script], resource=size, num_replicas=1)


with get_runner() as runner:
    roles = [role("main", "echo main"), role("worker", "test -n $AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")]
    app = runner.run(AppDef(name="gang", roles=roles), scheduler="aws_batch", cfg={"queue": "default"})
    while not is_terminal((status := runner.status(app)).state):
        time.sleep(0.5)
    lines = list(runner.log_lines(app, "main", 0))
    listed = [app.app_id for app in runner.list("aws_batch")]
print(json.dumps({"state": status.state.name, "lines": lines, "listed": len(listed)}))
