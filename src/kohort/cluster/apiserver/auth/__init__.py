"""Who is asking and what they may do: certificates, tokens, RBAC, access reviews."""
