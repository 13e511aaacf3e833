"""What a command is given: its options, the composed configuration, help and messages."""
