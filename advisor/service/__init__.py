"""Commands as a service: the same questions and answers over HTTP and for agents, within limits."""
