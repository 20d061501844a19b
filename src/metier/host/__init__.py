"""What a running skill may ask of us: the bridge, and the services behind it."""
