"""Markov chains over plans, with the simulator as the cost (FlexFlow section 3.5)."""
