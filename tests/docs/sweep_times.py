"""Measures the sweep of docs/sweeps.md, with batchq and with the AWS CLI: `python -m tests.docs.sweep_times`.

Writes the part of the page between its marks: the commands of the AWS CLI, and the table of the times. The AWS CLI
takes minutes.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

from tests.docs.engine import example_engine
from tests.docs.pages import EXAMPLE, ROOT, Example, examples
from tests.docs.session import Session

PAGE = ROOT / "docs" / "sweeps.md"
OPENING, CLOSING = "<!-- aws -->", "<!-- /aws -->"
PART = re.compile(f"{OPENING}\n.*?{CLOSING}", re.DOTALL)
STEP = re.compile(r"^### (.+)$", re.MULTILINE)

#: The commands of the AWS CLI for each step of the page.
AWS = {
    "Submit 200 runs": """\
number=0
while read -r rate; do
  number=$((number + 1))
  aws batch submit-job --job-name "aws-$number" --job-queue sweep --job-definition fit --query jobId --output text \\
    --container-overrides "environment=[{name=RATE,value=$rate}]"
done < runs > ids
""",
    "Watch them": """\
aws batch list-jobs --job-queue sweep --job-status RUNNING --query 'jobSummaryList[:3].[jobName, status]' --output text
aws batch list-jobs --job-queue sweep --job-status RUNNABLE --query 'length(jobSummaryList)'
""",
    "Follow the output of one": """\
job=$(tail -20 ids | head -1)
until stream=$(aws batch describe-jobs --jobs "$job" --query 'jobs[0].container.logStreamName' --output text) &&
  [ "$stream" != None ]; do sleep 1; done
aws logs get-log-events --log-group-name /aws/batch/job --log-stream-name "$stream" \\
  --query 'events[].message' --output text
""",
    "Explain why one waits": """\
aws batch describe-jobs --jobs "$(tail -1 ids)" --query 'jobs[0].statusReason'
""",
    "Stop ten": """\
for job in $(tail -10 ids); do aws batch terminate-job --job-id "$job" --reason 'not needed'; done
""",
    "Wait for all": """\
for part in 1,100 101,200; do
  while aws batch describe-jobs --jobs $(sed -n "${part}p" ids) --query 'jobs[].status' --output text |
    grep -qE 'SUBMITTED|PENDING|RUNNABLE|STARTING|RUNNING'; do sleep 1; done
done
""",
    "Submit the failed ones again": """\
for part in 1,100 101,200; do
  aws batch describe-jobs --jobs $(sed -n "${part}p" ids) --output text \\
    --query "jobs[?status=='FAILED' && !isTerminated].[jobName, container.environment[?name=='RATE'].value | [0]]"
done > failed
while read -r name rate; do
  aws batch submit-job --job-name "$name" --job-queue sweep --job-definition fit --query jobId --output text \\
    --container-overrides "environment=[{name=RATE,value=$rate},{name=CLIP,value=1}]"
done < failed > again
while aws batch describe-jobs --jobs $(cat again) --query 'jobs[].status' --output text |
  grep -qE 'SUBMITTED|PENDING|RUNNABLE|STARTING|RUNNING'; do sleep 1; done
""",
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="batchq-docs-") as made, example_engine(folder := Path(made)):
        session = Session(folder, docker=True)
        try:
            times = measured(session)
        finally:
            session.close()
    PAGE.write_text(PART.sub(lambda _: part(times), PAGE.read_text()))
    return 0


def measured(session: Session) -> dict[str, tuple[float, float]]:
    """The seconds of each step: with batchq, and with the AWS CLI."""
    steps: dict[str, float] = {}
    for step, example in steps_of(PAGE.read_text()):
        began = time.monotonic()
        session.play(example)
        if step:
            steps[step] = time.monotonic() - began
    times = {}
    for step, script in AWS.items():
        began = time.monotonic()
        session.play(Example(action="run", argument="", language="sh", text=script))
        times[step] = (steps[step], time.monotonic() - began)
        print(f"{step}: {times[step][0]:.1f} s, {times[step][1]:.1f} s", flush=True)
    return times


def steps_of(text: str) -> list[tuple[str, Example]]:
    """The examples of the page, each with the heading of its step; empty for the preparation."""
    shown = PART.sub("", text)
    starts = [match.start() for match in EXAMPLE.finditer(shown)]
    titles = [[pair[1] for pair in STEP.finditer(shown, 0, start)] for start in starts]
    return [(title[-1] if title else "", example) for title, example in zip(titles, examples(shown), strict=True)]


def part(times: dict[str, tuple[float, float]]) -> str:
    """The generated part of the page."""
    blocks = "\n".join(f"{step}:\n\n```sh\n{script}```\n" for step, script in AWS.items())
    rows = "\n".join(f"| {step} | {ours:.1f} | {aws:.1f} |" for step, (ours, aws) in times.items())
    return f"""{OPENING}
## With the AWS CLI

{blocks}
A waiting job has no statusReason unless it is the first of its queue. A repeated job has to be described again in full.

## Time of each step

Seconds of the recording, on two cores that other programs used, too: a command of batchq took 1.5 s, one of the AWS
CLI 1 to 4 s, which it needs for each of the 200 runs. "Follow", "Wait" and the last step include the time of the runs;
those of the AWS CLI had ended when the last one was submitted. The last row was measured with 20 jobs: then the ten
terminated ones were submitted again, too.

| step | batchq | AWS CLI |
|---|---|---|
{rows}
{CLOSING}"""


if __name__ == "__main__":
    sys.exit(main())
