"""A fake of the usage of consumable resources, with fixed figures."""


class Taken:
    """Returns the given figures for every resource."""

    def __init__(self, *, in_use=0, used_up=0):
        self._in_use, self._used_up = in_use, used_up

    def in_use(self, name):
        return self._in_use

    def used_up(self, name):
        return self._used_up
