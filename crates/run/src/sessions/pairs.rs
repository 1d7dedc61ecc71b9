//! Sessions of both ends, put together by their numbers.

use std::collections::HashMap;

use wirebeat_meter::session::{NumberedSession, SessionSummary};
use wirebeat_report::model::SessionPairs;

/// Puts the sessions of both ends together; `None` where one of them is not here.
pub(super) fn of(client: &SessionSummary, server: Option<&SessionSummary>) -> Option<SessionPairs> {
    let server = server?;
    let numbered = client.numbered.iter().filter_map(|session| Some((session.number?, session)));
    let mut clients: HashMap<u64, &NumberedSession> = numbered.collect();
    let mut pairs = SessionPairs {
        left_out: client.not_numbered.saturating_add(server.not_numbered),
        ..SessionPairs::default()
    };
    for there in &server.numbered {
        // a number that comes twice has one session
        let Some(here) = there.number.and_then(|number| clients.remove(&number)) else {
            pairs.server_only += 1;
            continue;
        };
        pairs.paired += 1;
        if here.in_order && there.in_order {
            pairs.in_order += 1;
            let equal = here.sent == there.delivered && there.sent == here.delivered;
            pairs.equal += u64::from(equal);
        }
    }
    pairs.client_only = clients.len() as u64;
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_and_strangers_are_told_apart() {
        let session = |number, sent, delivered, in_order| NumberedSession {
            number,
            sent,
            delivered,
            in_order,
        };
        let of_client = [
            session(Some(0), 10, 20, true),
            session(Some(1), 10, 20, true),
            session(Some(2), 10, 20, false),
            session(Some(7), 10, 20, true),
        ];
        let of_server = [
            session(Some(1), 20, 9, true),
            session(Some(0), 20, 10, true),
            session(Some(2), 3, 3, true),
            session(Some(2), 3, 3, true),
            session(None, 3, 3, true),
        ];
        let summary = |numbered: &[NumberedSession], not_numbered| SessionSummary {
            numbered: numbered.to_vec(),
            not_numbered,
            ..SessionSummary::default()
        };
        let found = of(&summary(&of_client, 1), Some(&summary(&of_server, 2)));
        let expected = SessionPairs {
            paired: 3,
            in_order: 2,
            equal: 1,
            client_only: 1,
            server_only: 2,
            left_out: 3,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(of(&summary(&of_client, 0), None), None);
    }
}
