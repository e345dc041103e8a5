"""The composition root: the only package that imports the API and the container runtimes."""
