"""The core of batchq: jobs and the rules that govern them. Pure: no I/O, no clock, no imports but `batchq.errors`."""
