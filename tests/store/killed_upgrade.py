"""Brings copies of a database to the newest schema, each killed (-9) at another statement; says what each came to.

One line of JSON a kill: at which statement, the version it was left at, the schema's own SQL, and how many jobs there
are; then the same of the last, which nobody killed.
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

from batchq.store import migrations


def upgrade(database, last):
    """Killed when it comes to that statement, before it is carried out."""
    left = iter(range(last))

    def killing(_):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.set_trace_callback(killing)
    migrations.migrate(connection, migrations.STEPS)
    connection.set_trace_callback(None)
    connection.close()
    os._exit(0)


def left(database, number):
    with closing(sqlite3.connect(database)) as found:
        schema = found.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
        (jobs,) = found.execute("SELECT count(*) FROM jobs").fetchone()
        return {"killed": number, "version": migrations.version(found), "schema": schema, "jobs": jobs}


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
            migrations.migrate(again, migrations.STEPS)
        print(json.dumps(left(copy, None)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
