"""Translation between the shapes of AWS Batch and the domain. Pure: no input or output."""
