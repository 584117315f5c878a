"""Canonical answers: raw model output to a comparable answer."""
