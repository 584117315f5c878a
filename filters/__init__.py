"""Harness filters and document perturbations."""
