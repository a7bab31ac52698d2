"""What a run shows: plain data first, then HTML, terminal tables and figures drawn from that data."""
