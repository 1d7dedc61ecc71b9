//! The program of messages one way: who sends them, and how it ends.
//!
//! Each sender ends with FIN and each receiver waits for it. Where nothing but the group's stop ends what the server sends, the
//! client says when that is, as with bulk data. Over UDP there is no end: the client stops, and the server has a peer that is silent.

use std::sync::Arc;

use wirebeat_units::{Fault, Nanos};

use super::script::{ScriptMaker, add, add_time};
use crate::program::script::{Body, Message, OneWay, Op, Script, TimeLaw};
use crate::scenario::session::program::{Direction, Messages};

/// How long a client over UDP stays after its last message, so that it arrives before the run ends.
const STAYS: Nanos = Nanos::from_secs(1);

/// What clients do.
pub(super) fn client(
    maker: &mut ScriptMaker<'_>,
    messages: &Messages,
    script: &mut Script,
) -> Result<(), Fault> {
    let sends = messages.direction != Direction::Reverse;
    let op = one_way(maker, messages, sends, script)?;
    script.ops.push(Op::Messages(op));
    if script.datagrams {
        let stays = TimeLaw::Fixed(STAYS.min(maker.spec.timeout));
        let stays = add_time(script, stays);
        script.ops.push(Op::Think(stays));
        return Ok(());
    }
    if !sends && messages.is_endless() {
        script.ops.push(Op::UntilStop);
    }
    if sends || messages.is_endless() {
        script.ops.push(Op::Shutdown);
    }
    script.ops.push(Op::WaitClose);
    Ok(())
}

/// What servers do.
pub(super) fn server(
    maker: &mut ScriptMaker<'_>,
    messages: &Messages,
    script: &mut Script,
) -> Result<(), Fault> {
    let sends = messages.direction != Direction::Forward;
    let op = one_way(maker, messages, sends, script)?;
    script.ops.push(Op::Messages(op));
    if script.datagrams {
        return Ok(());
    }
    if sends {
        script.ops.push(Op::Shutdown);
    }
    script.ops.push(Op::WaitClose);
    Ok(())
}

fn one_way(
    maker: &mut ScriptMaker<'_>,
    messages: &Messages,
    sends: bool,
    script: &mut Script,
) -> Result<OneWay, Fault> {
    let law = maker.length(&messages.size)?;
    let gap = maker.time(&messages.gap)?;
    let message = Message { head: Arc::from([]), length_at: None, body: Body::Stamped(law) };
    Ok(OneWay {
        sends: sends.then(|| add(script, message)),
        gap: add_time(script, gap),
        count: messages.messages.map(Into::into),
        time: messages.time,
    })
}
