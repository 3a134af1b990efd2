"""Scripts of users, run where they can do no harm."""
