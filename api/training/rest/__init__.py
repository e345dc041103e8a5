"""The training dialect: training jobs with final checkpoints, pause, metrics and cost."""
