"""The commands: one folder each, with its options, what it runs and what people see."""
