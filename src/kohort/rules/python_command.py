"""How kohort starts a module of its own as another process."""

import sys


def python_command(module: str, *arguments: str) -> list[str]:
    """Runs the module with this Python. Without -P the current directory would come first among the places of modules:
    a file of the user there, such as `yaml.py`, would be imported in place of the library.

    >>> python_command("kohort", "version")[1:]
    ['-P', '-m', 'kohort', 'version']
    """
    return [sys.executable, "-P", "-m", module, *arguments]
