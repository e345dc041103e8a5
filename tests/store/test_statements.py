"""Named parameters are bound to the values of a row."""

import sqlite3
from contextlib import closing

from batchq.store.statements import execute_each

OUT_OF_ORDER = "INSERT INTO kept (b, a, c) VALUES (:b, :a, :b || :c)"
ROWS = [{"a": 1, "b": "b", "c": "c", "beside": 0}, {"beside": 0, "c": "z", "b": "y", "a": None}]


def test_named_parameters_are_bound_in_any_order_and_repeatedly():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE kept (a, b, c)")

        written = execute_each(connection, OUT_OF_ORDER, ROWS)

        assert written == 2
        assert list(connection.execute("SELECT a, b, c FROM kept")) == [(1, "b", "bc"), (None, "y", "yz")]


def test_no_rows_execute_no_statement():
    with closing(sqlite3.connect(":memory:")) as connection:
        assert execute_each(connection, "INSERT INTO nowhere VALUES (:a, :b)", []) == 0
