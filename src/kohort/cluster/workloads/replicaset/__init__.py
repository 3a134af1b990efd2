"""ReplicaSets and ReplicationControllers: so many interchangeable pods."""
