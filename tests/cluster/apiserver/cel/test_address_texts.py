"""Why a text is not an address, network or version: the words are part of the answer to a broken rule."""

import pytest

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.network import to_address, to_network
from kohort.cluster.apiserver.cel.functions.semver import to_version

ADDRESS = 'IP Address "{0}" parse error during conversion from string: ParseAddr("{0}"): {1}'
NETWORK = "network address parse error during conversion from string: "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc", "unable to parse IP"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("256.1.1.1", "IPv4 field has value >255"),
        ("1.2.3.4/8", 'unexpected character (at "/8")'),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("1.2..3", 'IPv4 field must have at least one digit (at ".3")'),
        ("1:2", "address string too short"),
        ("x::", 'each colon-separated field must have at least one digit (at "x::")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("::1::", 'multiple :: in address (at ":")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
    ],
)
def test_addresses(text: str, problem: str) -> None:
    with pytest.raises(CelError) as refused:
        to_address(text)
    assert str(refused.value) == ADDRESS.format(text, problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3/8", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("1.2.3.4/", 'bad bits after slash: ""'),
        ("1.2.3.4/33", "prefix length out of range"),
    ],
)
def test_networks(text: str, problem: str) -> None:
    with pytest.raises(CelError) as refused:
        to_network(text)
    assert str(refused.value).endswith(f'{NETWORK}netip.ParsePrefix("{text}"): {problem}')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3+", "Build meta data is empty"),
    ],
)
def test_versions(text: str, problem: str) -> None:
    with pytest.raises(CelError) as refused:
        to_version(text)
    assert str(refused.value) == problem
