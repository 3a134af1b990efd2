"""PodSecurity: the three levels of the pod security standards, chosen by labels of the namespace."""
