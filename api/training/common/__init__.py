"""What the dialects for training jobs have in common."""
