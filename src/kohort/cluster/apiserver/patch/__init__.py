"""The three kinds of patch that say what to change: JSON patch, merge patch, strategic merge patch.

All are pure: documents in, a new document out. The result shares structure with its inputs, which never change.
"""
