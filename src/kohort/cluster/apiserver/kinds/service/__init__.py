"""Services: rules, and the addresses and ports that the API server hands out to them."""
