"""Simulate a change of a plan at the price of what it touches, exactly."""
