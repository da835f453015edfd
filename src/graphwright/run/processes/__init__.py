"""The processes of a run: start them, let them find each other, agree, and end in bounded time."""
