//! Datagrams over the loopback interface, against the stack itself and against the standard library's sockets.

use std::net::UdpSocket;

use super::*;
use crate::{UdpProfile, UdpStack};

/// A session: what it says, one message after the other, and what it heard.
#[derive(Default)]
struct Talk {
    connection: Option<Connection>,
    says: Vec<Vec<u8>>,
    taken: u64,
    heard: Vec<Vec<u8>>,
    end: Option<Reason>,
}

impl Talk {
    fn says(messages: impl IntoIterator<Item = Vec<u8>>) -> Talk {
        Talk { says: messages.into_iter().collect(), ..Talk::default() }
    }

    /// The beginning and the bytes of the message with the byte at `offset`.
    fn at(&self, offset: u64) -> Option<(u64, &[u8])> {
        let mut begin = 0;
        for message in &self.says {
            let end = begin + message.len() as u64;
            if offset < end {
                return Some((begin, message));
            }
            begin = end;
        }
        None
    }
}

/// Programs of messages. Those of a server say what they hear.
#[derive(Default)]
struct Talks {
    sessions: Vec<Talk>,
    accepts: bool,
    /// Whether they answer whatever comes.
    answers: bool,
    actions: VecDeque<Action>,
}

impl Talks {
    fn of(&mut self, session: SessionKey) -> &mut Talk {
        &mut self.sessions[session.0 as usize]
    }
}

impl Programs for Talks {
    fn accepted(&mut self, _: Nanos, connection: Connection, _: ProfileId) -> Option<SessionKey> {
        self.accepts.then(|| {
            self.sessions.push(Talk { connection: Some(connection), ..Talk::default() });
            SessionKey(self.sessions.len() as u32 - 1)
        })
    }

    fn established(&mut self, _: Nanos, session: SessionKey, connection: Connection) {
        self.of(session).connection = Some(connection);
        self.actions.push_back(Action::Send(connection));
    }

    fn payload<'a>(&'a mut self, session: SessionKey, offset: u64, _: &'a mut [u8]) -> &'a [u8] {
        // in pieces, as heads and bodies are
        let Some((begin, message)) = self.of(session).at(offset) else { return &[] };
        let rest = &message[(offset - begin) as usize..];
        &rest[..rest.len().min(1000)]
    }

    fn offer(&mut self, _: SessionKey, most: u64) -> u64 {
        most
    }

    fn taken(&mut self, _: Nanos, session: SessionKey, offset: u64) {
        self.of(session).taken = offset;
    }

    fn room(&self, _: SessionKey) -> usize {
        0
    }

    fn received(&mut self, _: Nanos, _: SessionKey, _: &[u8]) {
        panic!("messages are no stream");
    }

    fn message_end(&mut self, session: SessionKey, offset: u64) -> Option<u64> {
        self.of(session).at(offset).map(|(begin, message)| begin + message.len() as u64)
    }

    fn message(&mut self, _: Nanos, session: SessionKey, bytes: &[u8]) {
        let echoes = self.accepts;
        let talk = self.of(session);
        assert_eq!(talk.end, None);
        talk.heard.push(bytes.to_vec());
        if echoes {
            talk.says.push(bytes.to_vec());
        }
    }

    fn answers_anything(&self, _: ProfileId) -> bool {
        self.answers
    }

    fn peer_closed(&mut self, _: Nanos, _: SessionKey) {
        panic!("nobody closes anything");
    }

    fn ended(&mut self, _: Nanos, session: SessionKey, reason: Reason, _: ConnectionStats) {
        assert_eq!(self.of(session).end.replace(reason), None);
    }
}

struct Host {
    stack: UdpStack,
    talks: Talks,
}

impl Host {
    fn new() -> Host {
        let stack = UdpStack::new(vec![UdpProfile::default()], Limits::default()).unwrap();
        Host { stack, talks: Talks::default() }
    }

    fn server() -> (Host, SocketAddr) {
        let mut host = Host::new();
        host.talks.accepts = true;
        let at = host.stack.listen(LOCAL.parse().unwrap(), ProfileId(0)).unwrap();
        (host, at)
    }

    fn talk(&mut self, talk: Talk, remote: SocketAddr) {
        let session = SessionKey(self.talks.sessions.len() as u32);
        self.talks.sessions.push(talk);
        let local = ANYWHERE.parse().unwrap();
        let connect = Action::Connect { session, profile: ProfileId(0), local, remote };
        self.talks.actions.push_back(connect);
    }

    fn step(&mut self) {
        let mut now = clock();
        for _ in 0..2 {
            while let Some(action) = self.talks.actions.pop_front() {
                self.stack.apply(now, action, &mut self.talks);
            }
            let patience = now.saturating_add(Nanos::from_micros(50));
            now = self.stack.turn(now, patience, &mut self.talks);
        }
    }

    fn finish_all(&mut self) {
        let all = self.talks.sessions.iter().filter_map(|talk| talk.connection);
        self.talks.actions.extend(all.map(Action::Finish));
    }

    fn ends(&self) -> Vec<Option<Reason>> {
        self.talks.sessions.iter().map(|talk| talk.end).collect()
    }
}

/// Steps until a condition holds.
fn until_all(hosts: &mut [&mut Host], mut done: impl FnMut(&[&mut Host]) -> bool) {
    let begun = Instant::now();
    while !done(hosts) {
        hosts.iter_mut().for_each(|host| host.step());
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
    }
}

/// Messages of a byte, of some datagrams' length, and of the longest.
fn messages() -> Vec<Vec<u8>> {
    [1_usize, 64, 999, 1000, 1001, 9_000, 65_507]
        .iter()
        .map(|&length| (0..length).map(|at| (at * 7 + length) as u8).collect())
        .collect()
}

#[test]
fn every_message_is_a_datagram_and_every_datagram_a_message() {
    let (mut server, at) = Host::server();
    let mut client = Host::new();
    client.talk(Talk::says(messages()), at);
    client.talk(Talk::says([b"other".to_vec()]), at);
    until_all(&mut [&mut client, &mut server], |hosts| {
        hosts[0].talks.sessions[0].heard.len() == 7 && hosts[0].talks.sessions[1].heard.len() == 1
    });
    assert_eq!(client.talks.sessions[0].heard, messages());
    let lengths: u64 = messages().iter().map(|message| message.len() as u64).sum();
    assert_eq!(client.talks.sessions[0].taken, lengths);
    assert_eq!((server.stack.open(), server.stack.counters().accepted), (2, 2));
    assert_eq!((server.stack.counters().received, server.stack.counters().sent), (8, 8));
    client.finish_all();
    server.finish_all();
    until_all(&mut [&mut client, &mut server], |hosts| {
        hosts.iter().all(|host| host.stack.open() == 0)
    });
    assert_eq!(client.ends(), [Some(Reason::InOrder); 2]);
    assert_eq!(server.ends(), [Some(Reason::InOrder); 2]);
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let nobody = UdpSocket::bind(LOCAL).unwrap();
    let at = nobody.local_addr().unwrap();
    drop(nobody);
    let mut client = Host::new();
    client.talk(Talk::says([vec![1]]), at);
    until_all(&mut [&mut client], |hosts| hosts[0].talks.sessions[0].end.is_some());
    assert_eq!(client.ends(), [Some(Reason::Refused)]);
}

#[test]
fn the_standard_librarys_sockets_are_answered_and_asked() {
    let (mut server, at) = Host::server();
    let peer = UdpSocket::bind(LOCAL).unwrap();
    for (answered, message) in (1..).zip(messages()) {
        peer.send_to(&message, at).unwrap();
        let mut into = vec![0; 1 << 16];
        until_all(&mut [&mut server], |hosts| hosts[0].stack.counters().sent == answered);
        let (length, from) = peer.recv_from(&mut into).unwrap();
        assert_eq!((from, &into[..length]), (at, &message[..]));
    }
    let mut client = Host::new();
    client.talk(Talk::says(messages()), peer.local_addr().unwrap());
    until_all(&mut [&mut client], |hosts| hosts[0].stack.counters().sent == 7);
    for message in messages() {
        let mut into = vec![0; 1 << 16];
        let (length, _) = peer.recv_from(&mut into).unwrap();
        assert_eq!(&into[..length], &message[..]);
    }
}

/// What a peer is not, the system keeps from a session: its socket is connected.
#[test]
fn a_strangers_datagram_reaches_no_session() {
    let peer = UdpSocket::bind(LOCAL).unwrap();
    let mut client = Host::new();
    client.talk(Talk::says([vec![1]]), peer.local_addr().unwrap());
    until_all(&mut [&mut client], |hosts| hosts[0].stack.counters().sent == 1);
    let (_, at) = peer.recv_from(&mut [0; 10]).unwrap();
    UdpSocket::bind(LOCAL).unwrap().send_to(b"stranger", at).unwrap();
    peer.send_to(b"peer", at).unwrap();
    until_all(&mut [&mut client], |hosts| !hosts[0].talks.sessions[0].heard.is_empty());
    assert_eq!(client.talks.sessions[0].heard, [b"peer".to_vec()]);
}

/// Whoever invents sources does not lock out others: of those that sent one datagram the earliest makes room, and who sent more stays.
#[test]
fn peers_are_bounded_in_number_and_the_earliest_newcomer_makes_room() {
    let limits = Limits { connections: 0, peers: 2 };
    let stack = UdpStack::new(vec![UdpProfile::default()], limits).unwrap();
    let mut server = Host { stack, talks: Talks { accepts: true, ..Talks::default() } };
    let at = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0)).unwrap();
    let peers: Vec<UdpSocket> = (0..4).map(|_| UdpSocket::bind(LOCAL).unwrap()).collect();
    let mut sent = 0;
    let mut send = |server: &mut Host, peer: usize| {
        peers[peer].send_to(b"x", at).unwrap();
        sent += 1;
        until_all(&mut [server], |hosts| hosts[0].stack.counters().received == sent);
    };
    // the first says two things, the second one
    [0, 0, 1, 2].into_iter().for_each(|peer| send(&mut server, peer));
    assert_eq!((server.stack.open(), server.stack.counters().unwanted), (2, 0));
    assert_eq!(server.talks.sessions[1].end, Some(Reason::Aborted));
    assert_eq!(server.talks.sessions[0].end, None);
    // now both have said more, and nobody makes room
    [2, 3].into_iter().for_each(|peer| send(&mut server, peer));
    assert_eq!((server.stack.open(), server.stack.counters().unwanted), (2, 1));
    // one that is left makes room
    let connection = server.talks.sessions[0].connection.unwrap();
    server.talks.actions.push_back(Action::Finish(connection));
    until_all(&mut [&mut server], |hosts| hosts[0].stack.open() == 1);
    send(&mut server, 3);
    assert_eq!(server.stack.open(), 2);
}

/// Two servers that answer each other's answers never end.
#[test]
fn a_server_that_answers_anything_takes_nothing_from_its_own_port() {
    for (answers, unwanted) in [(true, 1), (false, 0)] {
        let stack = UdpStack::new(vec![UdpProfile::default()], Limits::default()).unwrap();
        let mut server =
            Host { stack, talks: Talks { accepts: true, answers, ..Talks::default() } };
        let at = server.stack.listen(LOCAL.parse().unwrap(), ProfileId(0)).unwrap();
        let other = UdpSocket::bind(("127.0.0.2", at.port())).unwrap();
        other.send_to(b"x", at).unwrap();
        until_all(&mut [&mut server], |hosts| hosts[0].stack.counters().received == 1);
        assert_eq!(server.stack.counters().unwanted, unwanted);
    }
}
