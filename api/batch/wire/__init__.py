"""The shapes of AWS Batch's requests, one file a resource. Shapes only: what they mean is said in `translate`."""
