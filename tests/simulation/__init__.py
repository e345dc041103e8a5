"""Simulates the whole engine by seed: on a virtual clock, with faults of the container engine, the disk and the server.

Read `run` first; `invariants` has what must hold in every run.
"""
