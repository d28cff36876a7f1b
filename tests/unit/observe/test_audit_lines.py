"""Records for standard output are split only between lines."""

from hypothesis import given
from hypothesis import strategies as st

from queuegate_server.observe.audit_file import split_lines

LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"") + b"\n"))


@given(LINES, st.integers(1, 30))
def test_pieces_are_whole_lines_that_fit_a_pipe(lines: list[bytes], max_bytes: int) -> None:
    pieces = list(split_lines(b"".join(lines), max_bytes))
    assert b"".join(pieces) == b"".join(lines)
    for piece in filter(None, pieces):
        assert piece.endswith(b"\n")
        assert len(piece) <= max_bytes or piece.count(b"\n") == 1
