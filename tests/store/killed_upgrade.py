"""Upgrade copies of a database to the second version, each killed (-9) at another statement.

Print a JSON line for each kill: the number of the statement, the version that is left, its schema, and the number of
jobs; then, with `killed` null, the same after the next start. The last upgrade is not killed.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from batchq.store import statements
from tests.store import second_version


def upgrade(database, last):
    """Killed when it comes to that statement, before it is carried out."""
    left = iter(range(last))

    def killing(_):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.set_trace_callback(killing)
    statements.migrate(connection, second_version.STEPS)
    connection.set_trace_callback(None)
    connection.close()
    os._exit(0)


def schema(connection):
    found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
    return [list(row) for row in found]


def left(database, number):
    with closing(sqlite3.connect(database)) as found:
        (jobs,) = found.execute("SELECT count(*) FROM jobs").fetchone()
        return {"killed": number, "version": statements.schema_version(found), "schema": schema(found), "jobs": jobs}


def main(source):
    for number in count():
        copy = source.with_name(f"copy-{number}.db")
        shutil.copy(source, copy)
        child = os.fork()
        if child == 0:
            upgrade(copy, number)
        _, status = os.waitpid(child, 0)
        print(json.dumps(left(copy, number)))
        if status == 0:
            return
        with closing(sqlite3.connect(copy, isolation_level=None)) as again:
            statements.migrate(again, second_version.STEPS)
        print(json.dumps(left(copy, None)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
