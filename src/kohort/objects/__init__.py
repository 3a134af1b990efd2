"""API objects as typed views, and the small values they are made of: quantities, names, selectors. Pure."""
