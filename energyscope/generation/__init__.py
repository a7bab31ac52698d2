"""The phases of real generations: their time stamps, and the joules of each from a continuous trace."""
