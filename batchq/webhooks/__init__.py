"""Webhooks: deliver events of jobs to URLs of users."""
