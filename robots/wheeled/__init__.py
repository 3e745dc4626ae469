"""Robots on wheels."""
