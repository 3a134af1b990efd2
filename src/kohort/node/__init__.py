"""The node agent: pods as processes of this machine, and their resize in place."""
