"""Tokens to a syntax tree, by operator precedence.

The limits on size and nesting are those of the reference implementation; they also keep the recursive walks of checker
and compiler far from Python's own recursion limit.
"""

from kohort.cluster.apiserver.cel.errors import CompileError, Issue
from kohort.cluster.apiserver.cel.lexer import Token, bytes_value, string_value, tokens
from kohort.cluster.apiserver.cel.macros import MacroError, expand
from kohort.cluster.apiserver.cel.syntax import (
    Call,
    Entry,
    Expr,
    FieldInit,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    qualified_name,
)
from kohort.cluster.apiserver.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

MAX_LENGTH = 100_000
MAX_DEPTH = 120
"""How deep expressions may nest in brackets, arguments and unary operators."""

RESERVED = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip

_BINARY: dict[str, tuple[int, str]] = {
    "==": (3, "_==_"),
    "!=": (3, "_!=_"),
    "<": (3, "_<_"),
    "<=": (3, "_<=_"),
    ">": (3, "_>_"),
    ">=": (3, "_>=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"),
    "-": (4, "_-_"),
    "*": (5, "_*_"),
    "/": (5, "_/_"),
    "%": (5, "_%_"),
}
_RELATION = 3
_PRIMARY = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(source: str) -> Expr:
    """The tree of an expression; CompileError when it is not one."""
    if len(source) > MAX_LENGTH:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise CompileError(source, [Issue(-1, message)])
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens, self.issues = tokens(source)
        self.position = 0
        self.depth = 0

    def parse(self) -> Expr:
        expr = self.expression()
        token = self.peek()
        if token.kind != "end":
            last = self.tokens[self.position + 1].kind == "end"
            what = "extraneous" if last else "mismatched"
            raise self.syntax_error(token, f"{what} input '{token.text}' expecting <EOF>")
        if self.issues:
            raise CompileError(self.source, self.issues)
        return expr

    # -- tokens

    def peek(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, text: str) -> bool:
        token = self.tokens[self.position]
        return token.text == text and token.kind in ("op", "keyword")

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            token = self.peek()
            insertable = token.kind == "end" and text in ")]"
            what = "missing '{0}' at '{1}'" if insertable else "mismatched input '{1}' expecting '{0}'"
            raise self.syntax_error(token, what.format(text, token.text))
        return self.take()

    def close(self, bracket: str) -> None:
        """The end of a literal that may also go on with a comma."""
        if not self.accept(bracket):
            token = self.peek()
            raise self.syntax_error(token, f"mismatched input '{token.text}' expecting {{'{bracket}', ','}}")

    def error(self, offset: int, message: str) -> CompileError:
        return CompileError(self.source, [*self.issues, Issue(offset, message)])

    def syntax_error(self, token: Token, message: str) -> CompileError:
        return self.error(token.offset, f"Syntax error: {message}")

    def no_alternative(self, after_dot: Token) -> CompileError:
        shown = "" if after_dot.kind == "end" else after_dot.text
        return self.syntax_error(after_dot, f"no viable alternative at input '.{shown}'")

    # -- grammar

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")
        condition = self.logical_or()
        if self.at("?"):
            mark = self.take()
            when_true = self.logical_or()
            self.expect(":")
            when_false = self.expression()
            condition = Call(mark.offset, "_?_:_", None, [condition, when_true, when_false])
        self.depth -= 1
        return condition

    def logical_or(self) -> Expr:
        first = self.logical_and()
        if not self.at("||"):
            return first
        offset = self.peek().offset
        terms = [first]
        while self.accept("||"):
            terms.append(self.logical_and())
        return Call(offset, "_||_", None, terms)

    def logical_and(self) -> Expr:
        first = self.binary(_RELATION)
        if not self.at("&&"):
            return first
        offset = self.peek().offset
        terms = [first]
        while self.accept("&&"):
            terms.append(self.binary(_RELATION))
        return Call(offset, "_&&_", None, terms)

    def binary(self, lowest: int) -> Expr:
        left = self.unary()
        while True:
            token = self.peek()
            operator = _BINARY.get(token.text) if token.kind in ("op", "keyword") else None
            if operator is None or operator[0] < lowest:
                return left
            self.take()
            right = self.binary(operator[0] + 1)
            left = Call(token.offset, operator[1], None, [left, right])

    def unary(self) -> Expr:
        token = self.peek()
        if token.kind != "op" or token.text not in "!-":
            return self.member(self.primary())
        run = 0
        while self.at(token.text):
            self.take()
            run += 1
        if token.text == "-" and run % 2 and self.peek().kind in ("int", "float"):
            return self.member(self.number(self.take(), token.offset))
        operand = self.member(self.primary())
        if run % 2 == 0:
            return operand
        return Call(token.offset, "!_" if token.text == "!" else "-_", None, [operand])

    def member(self, operand: Expr) -> Expr:
        while True:
            token = self.peek()
            if token.kind != "op":
                return operand
            if token.text == ".":
                operand = self.selection(operand)
            elif token.text == "[":
                self.take()
                optional = self.accept("?")
                index = self.expression()
                self.expect("]")
                operand = Call(token.offset, "_[?_]" if optional else "_[_]", None, [operand, index])
            elif token.text == "{":
                name = qualified_name(operand)
                if name is None:
                    return operand
                operand = self.struct(name)
            else:
                return operand

    def selection(self, operand: Expr) -> Expr:
        dot = self.take()
        optional = self.accept("?")
        name = self.peek()
        if name.kind == "keyword" and name.text != "in":
            raise self.syntax_error(name, f"mismatched input '{name.text}' expecting IDENTIFIER")
        if name.kind != "ident":
            raise self.no_alternative(name)
        self.take()
        if not optional and self.at("("):
            paren = self.take()
            return self.expanded(Call(paren.offset, name.text, operand, self.arguments(")")))
        return Select(dot.offset, operand, name.text, optional=optional)

    def arguments(self, closing: str) -> list[Expr]:
        items: list[Expr] = []
        if self.accept(closing):
            return items
        items.append(self.expression())
        while self.accept(","):
            items.append(self.expression())
        self.expect(closing)
        return items

    def expanded(self, call: Call) -> Expr:
        try:
            return expand(call)
        except MacroError as error:
            raise CompileError(self.source, [error.issue]) from None

    def primary(self) -> Expr:
        token = self.take()
        if token.kind == "ident":
            return self.identifier(token, absolute=False)
        if token.kind in ("int", "uint", "float"):
            return self.number(token)
        if token.kind in ("string", "rawstring", "bytes"):
            return self.text(token)
        if token.kind == "keyword" and token.text != "in":
            return Literal(token.offset, {"true": True, "false": False, "null": None}[token.text])
        if token.text == "." and self.peek().kind == "ident":
            return self.identifier(self.take(), absolute=True)
        if token.text == "." and token.kind == "op":
            raise self.no_alternative(self.peek())
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "[":
            return self.list_literal(token)
        if token.text == "{":
            return self.map_literal(token)
        raise self.syntax_error(token, f"mismatched input '{token.text}' expecting {_PRIMARY}")

    def identifier(self, token: Token, *, absolute: bool) -> Expr:
        if token.text in RESERVED:
            raise self.error(token.offset, f"reserved identifier: {token.text}")
        if self.at("("):
            paren = self.take()
            return self.expanded(Call(paren.offset, token.text, None, self.arguments(")")))
        return Ident(token.offset, token.text, absolute)

    def number(self, token: Token, minus: int = -1) -> Expr:
        offset = minus if minus >= 0 else token.offset
        sign = -1 if minus >= 0 else 1
        if token.kind == "float":
            return Literal(offset, sign * float(token.text))
        digits = token.text[:-1] if token.kind == "uint" else token.text
        value = int(digits, 16) if digits.startswith("0x") else int(digits)
        if token.kind == "uint":
            if value > UINT_MAX:
                raise self.error(offset, "invalid uint literal")
            return Literal(offset, Uint(value))
        if not INT_MIN <= sign * value <= INT_MAX:
            raise self.error(offset, "invalid int literal")
        return Literal(offset, sign * value)

    def text(self, token: Token) -> Expr:
        try:
            value = bytes_value(token.text) if token.kind == "bytes" else string_value(token.text)
        except ValueError as error:
            raise self.error(token.offset, str(error)) from None
        return Literal(token.offset, value)

    def list_literal(self, bracket: Token) -> Expr:
        items: list[Expr] = []
        optional: set[int] = set()
        while not self.accept("]"):
            if self.accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if not self.accept(","):
                self.close("]")
                break
        return ListLiteral(bracket.offset, items, frozenset(optional))

    def map_literal(self, brace: Token) -> Expr:
        entries: list[Entry] = []
        while not self.accept("}"):
            optional = self.accept("?")
            key = self.expression()
            colon = self.expect(":")
            entries.append(Entry(colon.offset, key, self.expression(), optional))
            if not self.accept(","):
                self.close("}")
                break
        return MapLiteral(brace.offset, entries)

    def struct(self, name: str) -> Expr:
        brace = self.take()
        fields: list[FieldInit] = []
        while not self.accept("}"):
            optional = self.accept("?")
            token = self.take()
            if token.kind != "ident":
                raise self.syntax_error(token, f"mismatched input '{token.text}' expecting IDENTIFIER")
            colon = self.expect(":")
            fields.append(FieldInit(colon.offset, token.text, self.expression(), optional))
            if not self.accept(","):
                self.expect("}")
                break
        return StructLiteral(brace.offset, name, fields)
