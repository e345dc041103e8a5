"""Two tasks of luigi.contrib.batch in Luigi's own scheduler. Prints their outcomes."""

import json
import sys

import luigi
from luigi.contrib.batch import BatchClient, BatchTask

outcomes = []


class Greeting(BatchTask):
    poll_time = 1
    word = luigi.Parameter()

    @property
    def parameters(self):
        return {"word": self.word}

    def complete(self):
        return f"SUCCESS {self.word}" in outcomes


@BatchTask.event_handler(luigi.Event.SUCCESS)
def success(task):
    outcomes.append(f"SUCCESS {task.word}")


@BatchTask.event_handler(luigi.Event.FAILURE)
def failure(task, exception):
    outcomes.append(f"FAILURE {exception}")


definition = BatchClient().register_job_definition(sys.argv[1])["jobDefinitionArn"]
common = {"job_definition": definition, "job_queue": None, "job_name": None}
luigi.build([Greeting(word="hello", **common), Greeting(word="fail", **common)], local_scheduler=True)
print(json.dumps(sorted(outcomes)))
