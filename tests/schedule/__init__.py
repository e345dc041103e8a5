"""A long day's work, scheduled by the whole engine on simulated containers and a clock that costs nothing.

`work` makes the jobs up, `day` lives them, `witness` watches and sums up. `python -m tests.schedule` prints the sums.
"""
