"""What may be chosen: the strategies of operators, the groups that are split alike, and their configurations."""
