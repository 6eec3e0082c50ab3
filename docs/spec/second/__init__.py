"""A second implementation of the wire formats, written from the pages beside it."""
