"""The ways in. A door authenticates, makes a Call, and shows the outcome; it decides nothing."""
