"""AMD's GPUs, through AMD SMI (the package amdsmi)."""
