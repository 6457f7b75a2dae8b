"""What notebooks 22 and 24 share: prompts with names, and which heads write a name."""
