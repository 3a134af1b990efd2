"""Numbers and nouns that agree, for messages: `1 group`, `2 groups`, `0 of 1 group`."""


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "group"), counted(2, "group"), counted(0, "more pod")
    ('1 group', '2 groups', '0 more pods')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted_of(number: int, total: int, noun: str) -> str:
    """
    >>> counted_of(1, 4, "group"), counted_of(0, 1, "group")
    ('1 of 4 groups', '0 of 1 group')
    """
    return f"{number} of {counted(total, noun)}"


def how_often(number: int) -> str:
    """
    >>> how_often(1), how_often(2), how_often(0)
    ('once', '2 times', '0 times')
    """
    return "once" if number == 1 else f"{number} times"


def agreeing(number: int, singular: str, plural: str) -> str:
    """The word that goes with a number of things.

    >>> agreeing(1, "does", "do"), agreeing(0, "does", "do")
    ('does', 'do')
    """
    return singular if number == 1 else plural
