"""Multi-host inference groups on Kubernetes: created, rolled, resized and released as one unit."""

__version__ = "0.1.0"
