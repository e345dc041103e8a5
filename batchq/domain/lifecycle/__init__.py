"""What may happen to a job, to its attempts and to its containers. Pure."""
