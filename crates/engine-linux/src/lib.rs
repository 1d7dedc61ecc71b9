//! The engines of Linux.
pub mod kernel;
