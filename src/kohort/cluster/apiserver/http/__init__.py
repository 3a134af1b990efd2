"""How requests and answers look on the wire: negotiation, encoding, tables, the socket front."""
