"""The entry point of `python -m batchq`, which equals the command `batchq`."""

from batchq.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
