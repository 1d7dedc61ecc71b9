//! Peers and machines that do not do what they should.
