//! Whole runs over virtual cables in namespaces of their own: the one conformance suite, run against
//! every engine; the kernel's meter against the reference; an independent observer on the link; and the
//! tools whose packets Wirebeat sends and reads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod ab;
mod captures;
mod cards;
mod conformance;
mod control;
mod counters;
mod ditg;
mod dns_sessions;
mod far_sessions;
mod firewall;
mod flow_round_trips;
mod flows_and_sessions;
mod fragments;
mod goals;
mod guest;
mod http_files;
mod impaired_wire;
mod interop;
mod interruptions;
mod intervals;
mod iperf;
mod kernel_meter;
mod kernel_meter_headers;
mod kernel_sender;
mod kernel_windows;
mod lab;
mod limits;
mod links;
mod live;
mod loss;
mod misbehaviour;
mod mixes;
mod model;
mod multicast;
mod neighbours;
mod null;
mod observations;
mod observer;
mod one_way;
mod own_cores;
mod own_hosts;
mod own_sessions;
mod own_traces;
mod own_udp;
mod own_vlan;
mod packet_logs;
mod pairs;
mod raw_ip;
mod real_servers;
mod receive_queues;
mod remote_sending;
mod replay;
mod replay_capture;
mod same_frames;
mod selftest;
mod servers;
mod session_capture;
mod session_goldens;
mod session_programs;
mod sessions;
mod slow_program;
mod start_rates;
mod tcp_options;
mod timestamps;
mod tls_sessions;
mod trace;
mod two_hosts;
mod udp_sessions;
mod victim;
mod world;
mod xdp;
