"""The scheduler of the embedded control plane: which node a pod runs on.

Read in this order: `terms` and `facts` (what is known of a pod and a node), `state` (the cluster, kept current),
`filters` and `scores` (who can and who should), `decision` (one pod), `preemption` (making room), `queue` and `hints`
(who is next and when to try again), `scheduler` (the shell), `registration`.
"""
