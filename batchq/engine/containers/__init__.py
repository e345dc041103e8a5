"""Carries out effects on containers, and observes how containers end."""
