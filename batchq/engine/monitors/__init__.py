"""Monitors of the store and of the event loop."""
