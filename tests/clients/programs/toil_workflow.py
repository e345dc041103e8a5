"""A workflow of Toil: two jobs, and one that adds their results and asks the engine for its version."""

import json

import docker
from toil.common import Toil
from toil.job import Job


def square(job, number):
    return number * number


def total(job, numbers):
    return {"sum": sum(numbers), "engine": docker.from_env().version()["Version"]}


def start(job):
    squares = [job.addChildJobFn(square, number).rv() for number in (3, 4)]
    return job.addFollowOnJobFn(total, squares).rv()


if __name__ == "__main__":
    options = Job.Runner.getDefaultArgumentParser().parse_args()
    with Toil(options) as toil:
        print(json.dumps(toil.start(Job.wrapJobFn(start))))
