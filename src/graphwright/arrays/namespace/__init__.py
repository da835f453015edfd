"""The functions of the namespace, by subject: each makes arrays of arrays, lazily."""
