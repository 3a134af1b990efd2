"""Reference pages that come from code, so that they cannot say anything else than it does."""
