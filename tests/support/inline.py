"""The real SQL without threads, for worlds whose time is virtual: a database in memory, spoken to where one stands."""

import sqlite3

from batchq.errors import Conflict, StoreFailed
from batchq.store import integrity, migrations
from batchq.store.transaction import Begin, carry_out


class InlineDatabase:
    """What `store.database.Database` is; `connection` is for damage."""

    instance = "inline"

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        integrity.bear_damage(self.connection)
        migrations.migrate(self.connection, migrations.STEPS)

    async def write(self, work):
        return self._run(Begin.WRITING, work)

    async def read(self, work):
        return self._run(Begin.READING, work)

    browse = read

    async def check(self): ...

    async def close(self):
        self.connection.close()

    def _run(self, begin, work):
        try:
            return carry_out(begin, work, self.connection)
        except sqlite3.IntegrityError as why:
            raise Conflict(str(why)) from why
        except (sqlite3.Error, ValueError, OverflowError) as why:
            raise StoreFailed(str(why)) from why
