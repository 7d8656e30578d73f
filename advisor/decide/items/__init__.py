"""Images, texts and audio under a promise on latency: fleets and what an item costs."""
