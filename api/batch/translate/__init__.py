"""Between the shapes of AWS Batch and the domain, both ways. Pure: it asks nobody and waits for nothing."""
