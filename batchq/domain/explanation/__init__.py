"""Explanations of jobs: a code and a sentence with figures for why a job is where it is. Pure."""
