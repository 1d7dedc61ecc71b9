//! Any bytes as a DNS message: it is read or refused, what our server answers is a message within its bounds, and a refusal is no longer
//! than what came. Any text as a name: what is printed of it is read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_dns::{Answer, EDNS_MAX, Message, NAME_MAX, Name, refuse};

fuzz_target!(|bytes: &[u8]| {
    let addresses = [[10, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into()];
    let mut out = Vec::new();
    match Message::read(bytes) {
        Ok(query) => {
            let answer = Answer { addresses: &addresses, ttl: 60, rcode: 0 };
            if answer.write(&query, bytes, EDNS_MAX, &mut out).is_some() {
                // a header, a question of the longest name, EDNS, and two records
                assert!(out.len() <= 12 + NAME_MAX + 4 + 11 + 16 + 28);
                let read = Message::read(&out).expect("what we write is a message");
                assert!(read.is_response && read.id == query.id);
            }
        }
        Err(_) => {
            refuse(bytes, &mut out);
            assert!(out.len() <= bytes.len());
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = Name::of_text(text)
    {
        assert_eq!(Name::of_text(&name.to_string()), Ok(name));
    }
});
