"""What Metier remembers: the state database, the audit log that nobody can change unnoticed, and who is trusted."""
