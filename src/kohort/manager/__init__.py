"""The operator as a process of its own: configuration, health, metrics, certificates, leadership, and how it ends."""
