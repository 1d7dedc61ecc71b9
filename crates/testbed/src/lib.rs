//! Namespaces and virtual cables for tests, the benchmark and the demo.
