"""The network lab: real gloo workers in network namespaces, on links of a chosen bandwidth, timed and counted."""
