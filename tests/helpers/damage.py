"""Files that were cut off or changed after they were written, and a limit on their size."""

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager


def damaged(content: bytes, draw: random.Random) -> bytes:
    """The content cut off, with a bit flipped, or with some bytes zero or of another place."""
    place = draw.randrange(len(content))
    length = draw.randint(1, 64)
    rest = content[place + length :]
    match draw.randrange(5):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + bytes(length) + rest
        case 2:
            return content[:place] + content[: len(content) - place - len(rest)] + rest
        case _:
            flipped = content[place] ^ 1 << draw.randrange(8)
            return content[:place] + bytes([flipped]) + content[place + 1 :]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """As with `ulimit -f`: the write that makes a file longer is cut off there, and fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
