"""Errors of a start: each message is one line with the reason and what to do."""

import errno


class CannotStart(Exception):
    """Shown to the user as it is; the process ends with this exit code and nothing has been overwritten."""

    exit_code = 1


class BadOption(CannotStart):
    """The command line itself is wrong: an option has a value that means nothing."""

    exit_code = 2


def address_problem(host: str, port: int, error: OSError) -> CannotStart:
    if error.errno == errno.EADDRINUSE:
        return CannotStart(f"port {port} on {host} is in use; choose another with --port, or 0 for any free one")
    if error.errno == errno.EACCES:
        return CannotStart(f"port {port} needs privileges; choose one above 1023 with --port")
    what = f"cannot listen on {host} port {port}: {error.strerror or error}"
    return CannotStart(f"{what}; name an address of this machine with --host: 127.0.0.1, or 0.0.0.0 for all of them")
