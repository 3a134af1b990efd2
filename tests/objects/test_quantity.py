"""Expected values were read off the reference implementation (apimachinery 0.36)."""

import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects import quantity
from kohort.objects.quantity import BINARY_SI, FORMAT_WRONG, NUMERIC_WRONG, SUFFIX_WRONG, ZERO, Quantity, canonical

MI = 2**20


@pytest.mark.parametrize(
    ("text", "stored", "value", "milli"),
    [
        ("0", "0", 0, 0),
        ("1", "1", 1, 1000),
        ("1000m", "1", 1, 1000),
        ("0.5", "500m", 1, 500),
        ("1.500", "1.500", 2, 1500),
        ("1.5", "1500m", 2, 1500),
        ("0.1m", "100u", 1, 1),
        ("0.0000000001", "1n", 1, 1),
        ("1024Mi", "1Gi", 1024 * MI, 1024 * MI * 1000),
        ("1.5Gi", "1536Mi", 1536 * MI, 1536 * MI * 1000),
        ("0.5Ki", "512", 512, 512_000),
        ("512", "512", 512, 512_000),
        ("3Ki", "3Ki", 3072, 3_072_000),
        ("1e3", "1e3", 1000, 1_000_000),
        ("1E3", "1E3", 1000, 1_000_000),
        ("1000e3", "1e6", 10**6, 10**9),
        ("1e-5", "10e-6", 1, 1),
        ("1E", "1E", 10**18, 10**21),
        ("12.3Ei", "9223372036854775807", 2**63 - 1, (2**63 - 1) * 1000),
        ("2048Pi", "2Ei", 2**61, 2**61 * 1000),
        ("-1.5Gi", "-1536Mi", -1536 * MI, -1536 * MI * 1000),
        ("+5", "+5", 5, 5000),
        ("1.G", "1.G", 10**9, 10**12),
        ("235055.Ki", "235055.Ki", 240696320, 240696320000),
        ("m", "0", 0, 0),
        ("123456789012345678901", "123456789012345678901", 123456789012345678901, 123456789012345678901000),
    ],
)
def test_parsing_keeps_the_amount_and_writes_it_canonically(text: str, stored: str, value: int, milli: int) -> None:
    parsed = Quantity.parse(text)
    assert (str(parsed), parsed.value, parsed.milli) == (stored, value, milli)


@pytest.mark.parametrize(("number", "stored"), [(2, "2"), (0.5, "500m"), (0, "0"), (1024, "1024"), (-3, "-3")])
def test_numbers_are_quantities_too(number: float, stored: str) -> None:
    assert canonical(number) == stored


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG),
        (" 1", FORMAT_WRONG),
        ("1 ", FORMAT_WRONG),
        ("1.1.M", FORMAT_WRONG),
        ("aoeu", FORMAT_WRONG),
        ("١", FORMAT_WRONG),
        ("1i", SUFFIX_WRONG),
        ("0.1mi", SUFFIX_WRONG),
        ("1K", SUFFIX_WRONG),
        ("1e", SUFFIX_WRONG),
        ("1e-", SUFFIX_WRONG),
        ("Pi", NUMERIC_WRONG),
    ],
)
def test_what_is_no_quantity_is_refused_in_the_words_of_the_api(text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        Quantity.parse(text)
    assert str(refused.value) == message


def test_a_boolean_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        Quantity.parse(True)


@pytest.mark.parametrize("text", ["1e2147483648", "1e" + "9" * 5000, "0" * 200_000 + "x", "9" * 200_000])
def test_hostile_text_is_refused_quickly(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ValueError):
        Quantity.parse(text)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("1e1000", "10e999"),
        ("1e1001", "100e999"),
        ("1e100000", "10e99999"),
        ("1e1000000", "10e999999"),
        ("1.5e1000000", "15e999999"),
        ("-1e1002", "-1e1002"),
        ("1000e1002", "1e1005"),
        ("1e2147483647", "10e2147483646"),
        ("0e1000000", "0"),
        ("0.00e2147483647", "0"),
    ],
)
def test_huge_exponents_keep_their_text_and_cost_nothing(text: str, stored: str) -> None:
    """The texts are those of k8s.io/apimachinery. Counted in digits that are computed with."""
    found = Quantity.parse(text)
    assert str(found) == str(found.rounded_up_to_milli()) == stored
    assert (found + found).nano.bit_length() < 5000
    assert Quantity.parse(stored) == found
    assert found.approximate in (float("inf"), float("-inf"), 0.0)


def test_a_vanishing_amount_is_still_an_amount() -> None:
    assert str(Quantity.parse("1e-999999999")) == "1e-9"


def test_a_sum_is_written_like_its_first_nonzero_part() -> None:
    assert str(ZERO + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1Gi") + Quantity.parse("1G")) == str(Quantity(2073741824 * 10**9, BINARY_SI))
    assert str(Quantity.parse("100m") + Quantity.parse("900m")) == "1"
    assert str(Quantity.parse("1Gi") - Quantity.parse("1Gi")) == "0"


@pytest.mark.parametrize(
    ("text", "rounded"), [("1n", "1m"), ("-1n", "-1m"), ("1500u", "2m"), ("2", "2"), ("1.500", "1.500")]
)
def test_requests_are_stored_in_thousandths(text: str, rounded: str) -> None:
    assert str(Quantity.parse(text).rounded_up_to_milli()) == rounded


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(quantity).failed == 0


suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "e-3"])
texts = st.builds(lambda number, suffix: f"{number}{suffix}", st.integers(-(10**12), 10**12), suffixes)


@given(texts)
def test_canonical_text_means_the_same_amount_and_is_its_own_canonical_text(text: str) -> None:
    parsed = Quantity.parse(text)
    again = Quantity.parse(str(parsed))
    assert again == parsed
    assert str(again) == str(parsed)


@given(texts, texts)
def test_addition_is_exact_and_reversible(left: str, right: str) -> None:
    a, b = Quantity.parse(left), Quantity.parse(right)
    assert a + b == b + a
    assert a + b - b == a
    assert (a < b) == (a.nano < b.nano)
    assert (hash(a) == hash(b)) or a != b


@given(texts)
def test_rounding_never_loses_anything(text: str) -> None:
    parsed = Quantity.parse(text)
    assert abs(Quantity.of(parsed.value).nano) >= abs(parsed.nano)
    assert abs(Quantity.of_milli(parsed.milli).nano) >= abs(parsed.nano)


def test_the_same_amount_in_another_spelling_is_equal() -> None:
    one, other = Quantity.parse("1000m"), Quantity.parse("1")
    assert one == other
    assert not one != other  # noqa: SIM202 (a method of its own)
