"""What the API server does with a request once it is known who asks: read, watch, write, delete, and the rest."""
