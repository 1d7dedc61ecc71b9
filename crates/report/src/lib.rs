//! The report: one versioned model, and its renderings.
