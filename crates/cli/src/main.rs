//! The `wirebeat` command.

fn main() {}
