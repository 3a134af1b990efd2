"""Where the programs `kohort` and `kubectl-kohort` begin: Ctrl-C ends them in order from here on."""

import os


def main() -> None:
    try:
        from kohort.cli import interruption
    except KeyboardInterrupt:
        os._exit(130)
    interruption.end_at_once()
    from kohort.cli.main import main as command

    command()
