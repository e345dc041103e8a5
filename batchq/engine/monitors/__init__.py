"""Watch over the store and over the event loop."""
