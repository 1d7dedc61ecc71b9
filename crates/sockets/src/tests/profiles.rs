//! What is asked of TCP reaches the sockets.
