"""What the commands do once they are connected: read, ask `kohort.inspection`, print or write."""
