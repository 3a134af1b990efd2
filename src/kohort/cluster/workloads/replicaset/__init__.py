"""ReplicaSets: so many interchangeable pods."""
