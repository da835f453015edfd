"""Plans that need no search of their own: the recipes that people use, and the plans of other systems."""
