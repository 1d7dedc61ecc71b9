//! Why things of MGEN are left out that it has in several places.

pub(super) const NO_LOG: &str = "Wirebeat's receiver writes the log: 'wirebeat receive --log mgen'";
pub(super) const NO_BUFFERS: &str = "Wirebeat sets the buffers of its sockets itself";
pub(super) const NO_ANALYTICS: &str =
    "analytics travel in MGEN's own messages; Wirebeat's receiver reports instead";
pub(super) const NO_REMOTE: &str =
    "commands to a remote MGEN travel in its messages, and are not sent";
pub(super) const NO_CHECKSUM: &str = "MGEN's own checksum is neither written nor verified";
pub(super) const NO_RUN_TIME: &str = "it is for a running MGEN; use 'wirebeat ctl'";
pub(super) const NO_PERMISSION: &str = "sending to a broadcast address needs no permission here";
pub(super) const NO_QUEUE: &str = "packets leave when they are due, and nothing is queued before";
pub(super) const NO_RETRY: &str =
    "a connection that fails is not opened again; its SYN is repeated ('tcp: { syn-retries: … }')";
