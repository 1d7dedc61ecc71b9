//! SCTP between two hosts of a testbed: the kernel's own, so that later parts can be shown beside it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;

use rustix::net::{AddressFamily, SocketType, accept, bind, connect, ipproto, listen, socket};
use wirebeat_testbed::{Capability, require};

use crate::world::cable;

/// Bytes of a message, and how many are sent.
const MESSAGE: usize = 1000;
const MESSAGES: usize = 200;

fn sctp() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP)).unwrap()
}

/// What message `number` holds.
fn message(number: usize) -> Vec<u8> {
    (0..MESSAGE).map(|at| (at * 7 + number * 13) as u8).collect()
}

/// Reads whole messages until the other end closes.
fn read(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn an_association_carries_messages_both_ways() {
    require!(Capability::NetworkNamespaces, Capability::Sctp);
    let bed = cable();
    let server = SocketAddrV4::new(bed.b.ipv4, 5000);
    let listening = bed.b.namespace.run(|| {
        let socket = sctp();
        bind(&socket, &server).unwrap();
        listen(&socket, 1).unwrap();
        socket
    });
    let listening = listening.unwrap();
    let expected: Vec<u8> = (0..MESSAGES).flat_map(message).collect();
    thread::scope(|scope| {
        // what std calls a TCP stream is a socket that reads and writes
        let echo = scope.spawn(|| {
            let mut stream = TcpStream::from(accept(&listening).unwrap());
            let mut buffer = [0; MESSAGE];
            let mut echoed = 0;
            while echoed < MESSAGE * MESSAGES {
                let count = stream.read(&mut buffer).unwrap();
                assert!(count > 0, "the association ended after {echoed} bytes");
                stream.write_all(&buffer[..count]).unwrap();
                echoed += count;
            }
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let client = bed.a.namespace.run(sctp).unwrap();
        connect(&client, &server).unwrap();
        let mut client = TcpStream::from(client);
        let reader = client.try_clone().unwrap();
        let reading = scope.spawn(move || read(reader));
        for number in 0..MESSAGES {
            client.write_all(&message(number)).unwrap();
        }
        assert!(reading.join().unwrap() == expected, "what came back is not what was sent");
        echo.join().unwrap();
    });
}
