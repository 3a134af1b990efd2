"""Rules of the domain that more than one part needs. Pure: no I/O, no clock, no cluster.

`groups`, `rollouts`, `cluster` and `node` never import each other. What two of them must agree on lives here, in one
module per question, named by the question it answers. A copy of a rule elsewhere is a defect even while it agrees.
"""
