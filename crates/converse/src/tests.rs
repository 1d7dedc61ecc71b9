//! Programs over a TCP in memory: both ends in one loop, on virtual time, byte by byte.

mod datagrams;
mod memory;
mod packed;
mod programs;
mod servers;
mod starts;
