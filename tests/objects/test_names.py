"""Messages are those of apimachinery 0.36."""

from collections.abc import Callable

import pytest

from kohort.objects import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', "
    r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY_PART = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CHARSET = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
LETTER = "must contain at least one letter (a-z)"

Rule = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("rule", "name", "problems"),
    [
        (names.dns1123_label, "my-name", []),
        (names.dns1123_label, "0", []),
        (names.dns1123_label, "a.b", ["must not contain dots"]),
        (names.dns1123_label, "A", [LABEL]),
        (names.dns1123_label, "a\n", [LABEL]),
        (names.dns1123_label, "", [LABEL]),
        (names.dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.dns1123_subdomain, "a.b-c.d", []),
        (names.dns1123_subdomain, "a..b", [SUBDOMAIN]),
        (names.dns1123_subdomain, "a_b", [SUBDOMAIN]),
        (names.dns1123_subdomain, "a" * 254, ["must be no more than 253 characters"]),
        (names.dns1035_label, "a1", []),
        (names.dns1035_label, "1a", [LABEL_1035]),
        (names.path_segment, "system:node", []),
        (names.path_segment, "..", ["may not be '..'"]),
        (names.path_segment, "a/b%", ["may not contain '/'", "may not contain '%'"]),
        (names.qualified_name, "app.kubernetes.io/Name_1.x", []),
        (names.qualified_name, "a/", ["name part must be non-empty", "name part " + KEY_PART]),
        (names.qualified_name, "/a", ["prefix part must be non-empty"]),
        (names.qualified_name, "A/b", ["prefix part " + SUBDOMAIN]),
        (names.qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (names.qualified_name, "-a", ["name part " + KEY_PART]),
        (
            names.qualified_name,
            "a/b/c",
            [
                f"a valid label key {KEY_PART} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')",
            ],
        ),
        (names.label_value, "", []),
        (names.label_value, "A_b.c", []),
        (names.label_value, "a b", [VALUE]),
        (names.label_value, "é" * 32, ["must be no more than 63 bytes", VALUE]),
        (names.port_name, "http-alt", []),
        (names.port_name, "80", [LETTER]),
        (names.port_name, "", [CHARSET, LETTER]),
        (names.port_name, "a--b", ["must not contain consecutive hyphens"]),
        (names.port_name, "-a", ["must not begin or end with a hyphen"]),
        (names.port_name, "a" * 16, ["must be no more than 15 characters"]),
        (names.env_name, "a b", []),
        (
            names.env_name,
            "A=B",
            ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
        ),
        (names.env_name, "", ["environment variable name must be non-empty"]),
        (names.config_key, "..a", ["must not start with '..'"]),
        (names.config_key, ".", ["must not be '.'"]),
    ],
)
def test_names_are_accepted_or_refused_in_the_words_of_the_api(rule: Rule, name: str, problems: list[str]) -> None:
    assert rule(name) == problems


@pytest.mark.parametrize("rule", [names.dns1123_label, names.dns1123_subdomain, names.dns1035_label])
def test_a_prefix_may_end_in_a_dash(rule: Callable[[str, bool], list[str]]) -> None:
    assert rule("web-", True) == []
    assert rule("web-", False) != []
    assert rule("-", True) != []
