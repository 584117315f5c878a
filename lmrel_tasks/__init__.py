"""Repeatability, baseline-adjusted bias and reliability levels inside lm-evaluation-harness."""
