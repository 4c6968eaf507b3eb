"""Networks, times, orbits and other pieces that several studies share."""
