"""What would change the joules per token: which alternatives are measured, how they are set up, what follows."""
