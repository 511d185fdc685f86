"""Segments against the same bytes written, read and mapped with nothing around."""
