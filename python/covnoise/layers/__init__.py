"""Layers that covnoise can record, one family per file."""
