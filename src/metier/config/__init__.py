"""Configuration: files and environment in, frozen `Settings` out, once per start."""
