"""Commits twice, before and after every fsync begins to fail, and prints the outcomes.

A seccomp filter lets the kernel answer fsync and fdatasync of this process with EIO.
"""

import asyncio
import ctypes
import errno
import os
import platform
import struct
import sys
from pathlib import Path

from batchq.errors import StoreFailed
from batchq.ports.jobs import Changes
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import job, job_id

CALLS = {  # fsync, fdatasync, seccomp
    "x86_64": (74, 75, 317),
    "aarch64": (82, 83, 277),
}
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_NO_NEW_PRIVS, SET_MODE_FILTER, ALL_THREADS = 38, 1, 1


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def fail_fsync():
    fsync, fdatasync, seccomp = CALLS[platform.machine()]
    steps = [
        (LOAD_NUMBER, 0, 0, 0),
        (JUMP_IF_EQUAL, 2, 0, fsync),
        (JUMP_IF_EQUAL, 1, 0, fdatasync),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, FAIL | errno.EIO),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.syscall(seccomp, SET_MODE_FILTER, ALL_THREADS, ctypes.byref(program)) == 0, ctypes.get_errno()


async def commit_twice(data):
    store = await SqliteStore.open(data)
    await store.commit(Changes(inserted=(job(number=0),)))
    print("saved")
    fail_fsync()
    try:
        await store.commit(Changes(inserted=(job(number=1),)))
        print("saved")
    except StoreFailed as why:
        print(f"StoreFailed: {why}")
    kept = await store.jobs([job_id(0), job_id(1)])
    print("kept:", [other_job.sequence for other_job in kept.values()], flush=True)
    os._exit(0)  # a close would write to the database


if __name__ == "__main__":
    asyncio.run(commit_twice(Path(sys.argv[1])))
