"""The kinds that are served: built-in ones and, as definitions come and go, custom ones."""
