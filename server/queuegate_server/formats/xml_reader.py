"""Parses XML into elements with positions.

Document type declarations are rejected, so there are no entities to expand or fetch. The file size,
depth and number of elements are bounded, and the tree is built without recursion.
"""

from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat

from queuegate_server.formats.diagnostics import Diagnostics, ParseError, Position
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.source_text import MAX_BYTES

MAX_DEPTH: Final = 200
MIN_ELEMENTS: Final = 200_000
MAX_ELEMENTS: Final = 2_000_000
"""The maximum number of elements of any document. Each takes up to 300 bytes."""
BYTES_PER_ELEMENT: Final = 16
"""The number of bytes that a document needs for each element beyond MIN_ELEMENTS. A property takes
three elements and about 80 bytes."""


@dataclass(slots=True, eq=False)
class Element:
    """An element with the position of its start tag."""

    line: int
    column: int
    name: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    text: str = ""
    """The characters directly inside the element, without comments."""
    is_plain: bool = True
    """False if the element directly contains a CDATA section or processing instruction, because XML
    readers split the text there."""


def read_xml(data: bytes, diagnostics: Diagnostics) -> Element | None:
    """Parse a document and return its root element; on failure, add an error and return None."""
    with diagnostics:
        return _Builder(diagnostics.indent).build(data)
    return None


class _Builder:
    def __init__(self, indent: int) -> None:
        self._indent = indent
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._root: Element | None = None
        self._count = 0
        self._max_elements = MIN_ELEMENTS

    def build(self, data: bytes) -> Element:
        """Parse a document, and return its root. Raises ParseError. Can be called once."""
        if len(data) > MAX_BYTES:
            remedy = phrase("split-or-remove")
            raise ParseError(None, finding("file-too-large", most=MAX_BYTES, remedy=remedy))
        if not data.strip():
            raise ParseError(Position(1, 1), finding("empty-xml"))
        elements = max(MIN_ELEMENTS, len(data) // BYTES_PER_ELEMENT)
        self._max_elements = min(MAX_ELEMENTS, elements)
        parser = self._parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartCdataSectionHandler = parser.ProcessingInstructionHandler = self._split
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            position = Position(error.lineno, error.offset + 1 + self._indent)
            why = expat.ErrorString(error.code)
            raise ParseError(position, finding("invalid-xml", why=why)) from None
        except (LookupError, ValueError) as error:  # an unknown encoding
            raise ParseError(Position(1, 1), finding("unknown-encoding", why=error)) from None
        finally:
            # Break the reference cycle with the parser. Otherwise, all elements would stay in
            # memory until garbage collection.
            del self._parser
        if self._root is None:
            raise ParseError(Position(1, 1), finding("empty-xml"))
        return self._root

    def _position(self) -> Position:
        column = self._parser.CurrentColumnNumber + 1 + self._indent
        return Position(self._parser.CurrentLineNumber, column)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        position = self._position()
        self._count += 1
        if len(self._open) >= MAX_DEPTH:
            raise ParseError(position, finding("deep-xml", most=MAX_DEPTH))
        if self._count > self._max_elements:
            raise ParseError(position, finding("too-many-elements", most=self._max_elements))
        element = Element(position.line, position.column, name, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, _name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, text: str) -> None:
        if self._texts:
            self._texts[-1].append(text)

    def _split(self, *_: object) -> None:
        if self._open:
            self._open[-1].is_plain = False

    def _doctype(self, *_: object) -> None:
        raise ParseError(self._position(), finding("document-type"))
