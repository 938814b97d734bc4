"""Black-box harness: a private server, the real daemon, a proxy that loses replies, and one checker of invariants."""
