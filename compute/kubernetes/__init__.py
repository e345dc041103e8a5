"""The container runtime on a Kubernetes cluster."""
