"""The second round of mutating admission."""


class Reinvocation:
    """What the first round found out for the second."""

    __slots__ = ("called", "last_output", "second_round", "to_call", "wanted")

    def __init__(self) -> None:
        self.wanted = False
        """Something changed the object, so built-in steps run again."""
        self.second_round = False
        self.called: set[str] = set()
        """Webhooks that want to be called again should the object change from now on."""
        self.to_call: set[str] = set()
        self.last_output = b""

    def changed(self) -> None:
        self.to_call |= self.called
        self.called = set()
