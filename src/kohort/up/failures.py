"""Why a cluster cannot be started, in one line that says what to do."""

import errno


class CannotStart(Exception):
    """Shown to the user as it is; the process ends with exit code 1 and nothing has been overwritten."""


def address_problem(host: str, port: int, error: OSError) -> CannotStart:
    if error.errno == errno.EADDRINUSE:
        return CannotStart(f"port {port} on {host} is in use; choose another with --port, or 0 for any free one")
    if error.errno == errno.EACCES:
        return CannotStart(f"port {port} needs privileges; choose one above 1023 with --port")
    return CannotStart(f"cannot listen on {host} port {port}: {error.strerror or error}")
