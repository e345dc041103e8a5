"""`make soak HOURS=2`: a real server under mixed load for hours, on an engine that restarts."""
