"""The `kohort` command, also `kubectl kohort`. A subcommand is imported when it is called: `--help` must be quick."""
