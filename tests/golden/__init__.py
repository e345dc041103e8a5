"""Golden files: what a later batchq must still understand, as text. `python -m tests.golden` compares them."""
