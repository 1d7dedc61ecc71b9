use proptest::prelude::*;
use wirebeat_wire::testing::udp_frame;

use super::*;
use crate::capture::Frames;
use crate::time_series::OnBad;
use Side::{Client, Server};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;
const RST: u8 = 0x04;

/// A frame of TCP, from the client (port 5000) or from the server (port 80).
fn tcp(from: Side, seq: u32, ack: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    tcp_of(5000, from, seq, ack, flags, data)
}

fn tcp_of(port: u16, from: Side, seq: u32, ack: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let (ends, ports) = match from {
        Client => ([1, 2], [port, 80]),
        Server => ([2, 1], [80, port]),
    };
    let mut frame = vec![2, 0, 0, 0, 0, ends[1], 2, 0, 0, 0, 0, ends[0], 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((40 + data.len() as u16).to_be_bytes());
    frame.extend([0, 9, 0, 0, 64, 6, 0, 0, 10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend(seq.to_be_bytes());
    frame.extend(ack.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(data);
    frame
}

/// A capture of frames, each with its time in microseconds.
fn pcap(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for (us, bytes) in frames {
        let len = bytes.len() as u32;
        file.extend(words(&[us / 1_000_000, us % 1_000_000, len, len]));
        file.extend(bytes);
    }
    file
}

fn found(frames: &[(u32, Vec<u8>)]) -> Found {
    let file = pcap(frames);
    let frames = Frames::new(&file[..], "test", OnBad::Stop);
    read(Window::new(frames, None), Keep::All).unwrap()
}

/// The only conversation, and its turns: who, what, and when it began in microseconds.
fn one(frames: &[(u32, Vec<u8>)]) -> (Conversation, Vec<(Side, String, i64)>) {
    let mut found = found(frames);
    assert_eq!(found.conversations.len(), 1);
    let conversation = found.conversations.remove(0);
    let turns = conversation.turns.iter().map(|turn| {
        let text = String::from_utf8_lossy(conversation.said_in(turn)).into_owned();
        (turn.from, text, turn.first_ns / 1000)
    });
    let turns = turns.collect();
    (conversation, turns)
}

/// A request and its response in two segments, then FIN of the server first.
fn exchange() -> Vec<(u32, Vec<u8>)> {
    vec![
        (0, tcp(Client, 99, 0, SYN, b"")),
        (10, tcp(Server, u32::MAX - 4, 100, SYN | ACK, b"")),
        (20, tcp(Client, 100, u32::MAX - 3, ACK, b"")),
        (30, tcp(Client, 100, u32::MAX - 3, ACK, b"hello")),
        (40, tcp(Server, u32::MAX - 3, 105, ACK, b"good ")),
        (50, tcp(Server, 1, 105, ACK | FIN, b"day")),
        (60, tcp(Client, 105, 5, ACK | FIN, b"")),
        (70, tcp(Server, 5, 106, ACK, b"")),
    ]
}

fn said() -> Vec<(Side, String, i64)> {
    vec![(Client, "hello".to_owned(), 30), (Server, "good day".to_owned(), 40)]
}

#[test]
fn each_end_speaks_in_turns_across_the_end_of_sequence_numbers() {
    let (conversation, turns) = one(&exchange());
    assert_eq!(turns, said());
    assert_eq!(conversation.client, "10.0.0.1:5000".parse().unwrap());
    assert_eq!(conversation.server, "10.0.0.2:80".parse().unwrap());
    assert_eq!((conversation.said, conversation.packets), ([5, 8], 8));
    assert_eq!(conversation.ending, Ending::Closed(Server));
    assert!(conversation.is_from_the_start);
    assert_eq!((conversation.repeated, conversation.missing), (0, 0));
    assert_eq!((conversation.first_ns, conversation.last_ns), (0, 70_000));
}

#[test]
fn what_was_sent_again_counts_once_and_disorder_is_put_right() {
    let mut frames = exchange();
    // the SYN again, the request again, a longer piece that overlaps, a probe of one byte
    frames.insert(1, (5, tcp(Client, 99, 0, SYN, b"")));
    frames.insert(5, (32, tcp(Client, 100, u32::MAX - 3, ACK, b"hello")));
    frames.insert(6, (33, tcp(Client, 104, u32::MAX - 3, ACK, b"o")));
    let (conversation, turns) = one(&frames);
    assert_eq!((turns, conversation.repeated, conversation.missing), (said(), 2, 0));

    let mut frames = exchange();
    frames.swap(4, 5);
    let (conversation, turns) = one(&frames);
    assert_eq!(turns[1].1, "good day");
    assert_eq!((conversation.missing, conversation.ending), (0, Ending::Closed(Server)));
}

#[test]
fn what_the_capture_lacks_is_counted() {
    let without = |numbers: &[usize]| {
        let all = exchange().into_iter().enumerate();
        one(&all.filter(|(n, _)| !numbers.contains(n)).map(|(_, it)| it).collect::<Vec<_>>()).0
    };
    assert_eq!(without(&[3]).missing, 5, "the request");
    assert_eq!(without(&[4]).missing, 5, "the first part of the response");
    // a FIN that was acknowledged and not captured counts as a byte
    assert_eq!(without(&[5]).missing, 4, "the rest with its FIN");
    // one side alone: the acknowledgments of the other say what there was
    let client = without(&[1, 4, 5, 7]);
    assert_eq!((client.said, client.missing), ([5, 0], 9));
    let server = without(&[0, 2, 3, 6]);
    assert_eq!((server.said, server.missing), ([0, 8], 6));
    assert_eq!(server.client.port(), 5000);
    // its beginning was not captured
    assert!(!without(&[0, 1, 2]).is_from_the_start);
}

#[test]
fn the_same_ends_have_a_second_connection() {
    let mut frames = exchange();
    frames.push((80, tcp(Client, 7000, 0, SYN, b"")));
    frames.push((90, tcp(Server, 1, 7001, RST | ACK, b"")));
    let found = found(&frames).conversations;
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].said, found[0].ending), ([5, 8], Ending::Closed(Server)));
    assert_eq!((found[1].number, found[1].ending), (2, Ending::Reset(Server)));
    assert_eq!((found[1].first_ns, found[1].said), (80_000, [0, 0]));
}

#[test]
fn a_pause_and_the_other_end_begin_turns() {
    let (_, turns) = one(&[
        (0, tcp(Client, 0, 0, SYN, b"")),
        (10, tcp(Client, 1, 1, ACK, b"a")),
        (20, tcp(Client, 2, 1, ACK, b"b")),
        (30_000, tcp(Client, 3, 1, ACK, b"c")),
        (30_001, tcp(Server, 1, 4, ACK, b"d")),
        (30_002, tcp(Client, 4, 2, ACK, b"e")),
    ]);
    let texts: Vec<_> = turns.iter().map(|(_, text, _)| text.as_str()).collect();
    assert_eq!(texts, ["ab", "c", "d", "e"]);
}

#[test]
fn datagrams_are_turns_until_nobody_speaks() {
    let ask = |text: &str| udp_frame("10.0.0.1:4000", "10.0.0.2:53", text.as_bytes());
    let answer = |text: &str| udp_frame("10.0.0.2:53", "10.0.0.1:4000", text.as_bytes());
    let minute = 60_000_000;
    let found = found(&[
        (0, ask("a")),
        (1, ask("b")),
        (2, answer("c")),
        (2 + minute, answer("d")),
        (3 + 2 * minute, ask("e")),
    ]);
    let all = found.conversations;
    let texts = |n: usize| -> Vec<_> {
        let it: &Conversation = &all[n];
        it.turns.iter().map(|turn| (turn.from, it.said_in(turn))).collect()
    };
    assert_eq!(texts(0), [(Client, &b"a"[..]), (Client, b"b"), (Server, b"c"), (Server, b"d")]);
    assert_eq!(texts(1), [(Client, &b"e"[..])]);
    assert!(all.iter().all(|it| it.transport == Transport::Udp && it.ending == Ending::Open));
}

#[test]
fn only_what_is_asked_for_is_kept_and_the_rest_is_counted() {
    let mut frames = exchange();
    let mut other = tcp_of(5001, Client, 0, 0, SYN, b"");
    frames.push((100, other.clone()));
    // no IP, another protocol
    other[12] = 0x88;
    frames.push((101, other.clone()));
    other[12] = 8;
    other[23] = 47;
    frames.push((102, other));
    let file = pcap(&frames);
    let window = Window::new(Frames::new(&file[..], "test", OnBad::Stop), None);
    let found = read(window, Keep::These([2].into())).unwrap();
    let [first, second] = &found.conversations[..] else { panic!("two conversations") };
    assert!(first.turns.is_empty() && first.bytes.is_empty());
    assert_eq!((first.said, second.number, second.client.port()), ([5, 8], 2, 5001));
    let skipped: Vec<_> = found.skipped.iter().filter(|(_, n)| *n > 0).collect();
    assert_eq!(skipped, [("not IP", 1), ("neither TCP nor UDP", 1)]);
}

proptest! {
    /// Segments cut, doubled and in any order: all is there once, in its order, as long as each byte was captured once.
    #[test]
    fn any_order_gives_the_same_bytes(
        data in prop::collection::vec(any::<u8>(), 1..400),
        isn: u32,
        cuts in prop::collection::vec((0..400_usize, 1..200_usize), 0..20),
        order in any::<u64>(),
    ) {
        let mut pieces: Vec<(usize, usize)> =
            (0..data.len()).step_by(50).map(|at| (at, (at + 50).min(data.len()))).collect();
        for (at, len) in cuts {
            let at = at % data.len();
            pieces.push((at, (at + len).min(data.len())));
        }
        let mix = |n: usize| (n as u64 + 1).wrapping_mul(order | 1).rotate_left(17);
        let mut numbered: Vec<_> = pieces.into_iter().enumerate().collect();
        numbered.sort_by_key(|(n, _)| mix(*n));
        let mut frames = vec![(0, tcp(Client, isn, 0, SYN, b""))];
        for (_, (from, to)) in numbered {
            let seq = isn.wrapping_add(1 + from as u32);
            frames.push((1, tcp(Client, seq, 1, ACK, &data[from..to])));
        }
        let (conversation, _) = one(&frames);
        prop_assert_eq!(&conversation.bytes, &data);
        prop_assert_eq!((conversation.said, conversation.missing), ([data.len() as u64, 0], 0));
    }

    /// Any bytes: no panic.
    #[test]
    fn any_segments_are_taken(
        all in prop::collection::vec(
            (any::<bool>(), any::<u32>(), any::<u32>(), any::<u8>(), 0..40_usize), 0..60),
    ) {
        let frames: Vec<_> = all.into_iter().map(|(client, seq, ack, flags, len)| {
            let from = if client { Client } else { Server };
            (0, tcp(from, seq, ack, flags, &vec![7; len]))
        }).collect();
        let found = found(&frames);
        for it in found.conversations {
            prop_assert_eq!(it.bytes.len() as u64, it.said[0] + it.said[1]);
        }
    }
}
