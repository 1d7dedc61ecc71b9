//! Scenario in, progress while it runs, report out.
