"""Optional: what comes from the hub, from installed packages or from files near by."""
