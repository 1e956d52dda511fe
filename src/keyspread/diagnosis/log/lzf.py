"""Decompress LZF, the codec of Spark 1.x that no Python package of ours reads."""


def decompress(data: bytes, size: int) -> bytes | None:
    """Return the `size` bytes that were compressed to `data`, None if the data is damaged."""
    out = bytearray()
    place, end = 0, len(data)
    try:
        while place < end:
            control = data[place]
            place += 1
            if control < 32:  # a run of control + 1 literal bytes
                out += data[place : place + control + 1]
                place += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += data[place]
                place += 1
            start = len(out) - ((control & 0x1F) << 8) - data[place] - 1
            place += 1
            if start < 0:
                return None
            length += 2
            # The source may overlap what is written: 'ab' copied with length 5 is 'ababa'.
            piece = out[start : start + length]
            while len(piece) < length:
                piece += piece[: length - len(piece)]
            out += piece
    except IndexError:
        return None
    return bytes(out) if len(out) == size else None
