"""Hashes in names."""

import string

from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.safe_text import ALPHABET, fnv1, fnv1a, safe_text


def test_the_alphabet_has_no_vowels_and_no_digits_that_look_like_them() -> None:
    assert set(ALPHABET) == set(string.ascii_lowercase + string.digits) - set("aeiouy013")
    assert len(set(ALPHABET)) == len(ALPHABET)


def test_digits_are_spelled_as_kubernetes_spells_them() -> None:
    """The name suffix that kube-controller-manager gives for the hash 3687927682."""
    assert safe_text("3687927682") == "7bdcf6cbd6"


@given(st.text(alphabet=string.hexdigits, max_size=64))
def test_every_character_becomes_one_of_the_alphabet(text: str) -> None:
    found = safe_text(text)
    assert len(found) == len(text)
    assert set(found) <= set(ALPHABET)


def test_the_published_test_vectors_of_fnv() -> None:
    """From the test suite that accompanies draft-eastlake-fnv."""
    words = {b"": (0x811C9DC5, 0x811C9DC5), b"a": (0x050C5D7E, 0xE40C292C), b"foobar": (0x31F0B262, 0xBF9CF968)}
    assert {word: (fnv1(word), fnv1a(word)) for word in words} == words


@given(st.binary(max_size=100))
def test_hashes_have_32_bits(data: bytes) -> None:
    assert 0 <= fnv1(data) < 2**32
    assert 0 <= fnv1a(data) < 2**32
