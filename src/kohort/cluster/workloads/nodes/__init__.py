"""Nodes: their health, the taints that follow from it, and the pods that must leave."""
