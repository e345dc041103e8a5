"""batchq's own operations, which AWS does not have."""
