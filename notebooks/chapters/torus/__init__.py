"""What notebooks 13 to 15 share: the torus networks, their training and their pictures."""
