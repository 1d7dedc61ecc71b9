//! The engines of Linux.
