"""The narrow interfaces to the outside, each with its values."""
