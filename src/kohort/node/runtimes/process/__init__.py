"""Containers as processes of this machine.

The agent does not start them itself: a small supervisor does, which lives on when the agent ends, so that nothing is
lost but time when the agent is killed. It holds their output and sees how they end. The agent talks to it over a
socket in the state directory.

    agent ──socket──▶ supervisor ──▶ container processes

If the supervisor is killed as well, its successor recognises processes by pid and start time. Their output goes through
named pipes that they hold open themselves, so they do not notice; only how they end can then not be known.
"""
