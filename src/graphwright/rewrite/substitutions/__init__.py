"""Substitutions that nobody wrote by hand: generated, proved and pruned (TASO)."""
