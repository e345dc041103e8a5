"""The metrics of a server, as Prometheus reads them."""
