"""Fits a line to noisy points by gradient descent: a small training program, in plain Python.

It writes a checkpoint every 50 steps and on SIGUSR1, and continues from the checkpoint in BATCHQ_RESUME_FROM. A
checkpoint has all that the next step needs, so the losses are those of a run without interruption.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

STEPS = int(os.environ.get("STEPS", "400"))
SECONDS_PER_STEP = float(os.environ.get("SECONDS_PER_STEP", "0.05"))
WRITE_SECONDS = float(os.environ.get("WRITE_SECONDS", "0"))  # from SIGUSR1 until the checkpoint is written
STOP_SECONDS = float(os.environ.get("STOP_SECONDS", "0"))  # from SIGTERM until it exits
DIRECTORY = Path(os.environ["BATCHQ_CHECKPOINT_DIR"])
EVERY = 50  # steps
STEPS_PER_EPOCH = 100


class Trainer:
    def __init__(self):
        self.step, self.slope, self.offset = 0, 0.0, 0.0
        self.dice = random.Random(1)

    def resume(self, file):
        saved = json.loads(Path(file).read_text())
        self.step, self.slope, self.offset = saved["step"], saved["slope"], saved["offset"]
        version, state, gauss = saved["dice"]
        self.dice.setstate((version, tuple(state), gauss))

    def save(self):
        """Write under a temporary name, then rename: a checkpoint is complete or absent."""
        state = {"step": self.step, "slope": self.slope, "offset": self.offset, "dice": self.dice.getstate()}
        written = DIRECTORY / ".written"
        written.write_text(json.dumps(state))
        written.replace(DIRECTORY / f"epoch-{self.step // STEPS_PER_EPOCH}-step-{self.step}.json")

    def learn(self):
        """One step on a batch of points; returns its loss."""
        points = [(x, 3.0 * x + 1.0 + self.dice.gauss(0, 0.1)) for x in (self.dice.random() for _ in range(16))]
        errors = [(self.slope * x + self.offset - y, x) for x, y in points]
        self.slope -= 0.1 * sum(error * x for error, x in errors) / len(errors)
        self.offset -= 0.1 * sum(error for error, _ in errors) / len(errors)
        self.step += 1
        return sum(error * error for error, _ in errors) / len(errors)


def stop():
    time.sleep(STOP_SECONDS)
    os._exit(143)


def main():
    trainer, requested, written = Trainer(), [], 0
    signal.signal(signal.SIGUSR1, lambda *_: requested.append(True))
    signal.signal(signal.SIGTERM, lambda *_: stop())
    resume_from = os.environ.get("BATCHQ_RESUME_FROM")
    if resume_from:
        trainer.resume(resume_from)
        print(f"resumed from {Path(resume_from).name}", flush=True)
    while trainer.step < STEPS:
        loss = trainer.learn()
        print(f"epoch={trainer.step // STEPS_PER_EPOCH} step={trainer.step} loss={loss:.6f}", flush=True)
        if len(requested) > written:  # one more for each signal, also for one that arrives during a write
            written += 1
            print(f"checkpoint requested at step={trainer.step}", flush=True)
            time.sleep(WRITE_SECONDS)
            trainer.save()
        elif trainer.step % EVERY == 0:
            trainer.save()
        time.sleep(SECONDS_PER_STEP)


if __name__ == "__main__":
    main()
