"""The live page of a stream: its history in bounded memory, one self-contained HTML page, and a small server."""
