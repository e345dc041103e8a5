"""`make demo`: the main job of batchq, on real containers, through boto3."""
