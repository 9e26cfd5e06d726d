"""Triggers and strengths compared on eight changing streams."""
