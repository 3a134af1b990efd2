"""What names stand for in pods: `hosts` (a file), `zone` (what a name server answers, pure), `messages` (how it says
it), `server`, `resolving` (how pods find it), `forwarding` (services that pods reach), and `directory`, all of it."""
