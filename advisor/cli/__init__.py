"""The command line: commands parse and deliver; what they compute lives in other rooms."""
