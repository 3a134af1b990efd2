"""Helpers for mutating admission policies that produce JSON patches."""

from kohort.cluster.apiserver.cel.functions.model import Function, Library


def escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


LIBRARY = Library((Function("jsonpatch.escapeKey(string): string", escape_key),))
