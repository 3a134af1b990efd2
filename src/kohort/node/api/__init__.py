"""What the API server asks a node for: logs, exec, attach, port-forward. HTTPS, with client certificates."""
