"""The shapes of AWS Batch's requests, one file for each resource. `translate` defines what they mean."""
