"""The embedded control plane: API server, workload controllers, scheduler, gateway, simulated nodes."""
