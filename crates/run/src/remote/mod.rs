//! The control connection between a sender and a receiver on another host.

/// Why a receiver on another host could not be won.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It could not be reached.
    #[error("cannot reach the receiver at {address}: {source}")]
    Unreachable {
        /// Where.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
}

impl RemoteError {
    /// 2: wrong usage; 3: the machines can't.
    pub fn exit_code(&self) -> u8 {
        3
    }
}
