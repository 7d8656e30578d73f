"""Files that start what an option priced: commands, containers, manifests."""
