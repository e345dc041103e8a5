"""Decides which jobs start next, and in which compute environment."""
