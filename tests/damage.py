"""Random damage to the content of files, for tests of what reads them."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

WORDS = b", - 0 9 1e9 1e99 1.5 nan inf x # \0 \xff 1_0 0x1 \xd9\xa3 999999999999999999999999999999"
PIECES = st.sampled_from([b"", b" ", b"\n", b"\r", b"\x1c", *WORDS.split()])
# Which part of the content to replace, and by what: at two numbers between 0 and 1.
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.3), PIECES), min_size=1, max_size=4)
quick = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def damaged(content: bytes, changes: list[tuple[float, float, bytes]]) -> bytes:
    for at, length, piece in changes:
        start = round(at * len(content))
        content = content[:start] + piece + content[start + round(length * len(content)) :]
    return content
