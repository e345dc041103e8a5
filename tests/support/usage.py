"""How much of a consumable resource jobs have taken, as a test says it."""


class Taken:
    """Usage as it is told."""

    def __init__(self, *, in_use=0, used_up=0):
        self._in_use, self._used_up = in_use, used_up

    def in_use(self, name):
        return self._in_use

    def used_up(self, name):
        return self._used_up
