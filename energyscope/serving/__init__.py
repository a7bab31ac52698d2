"""What requests to a running server cost: it is asked over HTTP, and the GPU's counter is watched beside it."""
