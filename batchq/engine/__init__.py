"""The shell around the core: asyncio, and little else."""
