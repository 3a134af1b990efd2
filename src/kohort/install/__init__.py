"""Installing the operator on a cluster: what is installed, as objects; how it gets there, and how it goes."""
