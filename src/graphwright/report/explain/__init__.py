"""Why a plan does what it does, in tables, text and data; and how two plans differ."""
