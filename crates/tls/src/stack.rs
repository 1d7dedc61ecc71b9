//! A TCP with TLS over it: what programs want goes down through the layer, and what happens comes up through it.

use wirebeat_converse::stack::{Action, Connection, ConnectionSample, Programs, Stack};
use wirebeat_units::{Fault, Nanos};

use crate::between::{Between, Layer};
use crate::profile::Ends;

/// Things that the TCP is asked for before others have their turn.
const ASKED_MAX: usize = 4096;

/// A TCP with TLS for groups that have it.
#[derive(Debug)]
pub struct TlsStack<S> {
    /// The TCP below.
    pub stack: S,
    layer: Option<Layer>,
}

impl<S: Stack> TlsStack<S> {
    /// Over `stack`, for groups by the numbers of their profiles. Where none has TLS there is nothing between.
    pub fn new(stack: S, profiles: Vec<Option<Ends>>) -> TlsStack<S> {
        let any = profiles.iter().any(Option::is_some);
        TlsStack { stack, layer: any.then(|| Layer::new(profiles)) }
    }

    /// The same on a real clock: the time that cryptography takes is in the times of handshakes.
    pub fn with_clock(mut self, clock: fn() -> Nanos) -> TlsStack<S> {
        if let Some(layer) = &mut self.layer {
            layer.clock = Some(clock);
        }
        self
    }

    /// Whether the TCP is to be asked for something at once.
    pub fn has_actions(&self) -> bool {
        self.layer.as_ref().is_some_and(|layer| !layer.actions.is_empty())
    }

    /// Bytes that a session holds here.
    #[cfg(test)]
    pub(crate) fn held(&self, session: wirebeat_converse::stack::SessionKey) -> usize {
        self.layer.as_ref().map_or(0, |layer| layer.held(session))
    }

    /// Asks the TCP for what had to wait until it returned.
    fn ask(&mut self, now: Nanos, programs: &mut dyn Programs) {
        let Some(layer) = &mut self.layer else { return };
        for _ in 0..ASKED_MAX {
            let Some(action) = layer.actions.pop_front() else { break };
            layer.asks(&action);
            let mut between = Between { layer, programs };
            self.stack.apply(now, action, &mut between);
        }
    }
}

/// What is left of an action for the TCP below.
fn down(now: Nanos, action: Action, between: &mut Between<'_>) -> Option<Action> {
    match action {
        Action::Connect { session, profile, remote, .. } => {
            between.layer.opens(session, profile, remote.ip());
            Some(action)
        }
        Action::Send(connection) => {
            if let Some(key) = between.layer.key(connection) {
                between.sends(key);
            }
            Some(action)
        }
        Action::Receive(connection) => {
            let key = between.layer.key(connection);
            let room = key.is_none_or(|key| between.has_room(now, key));
            room.then_some(action)
        }
        Action::Finish(connection) => {
            let key = between.layer.key(connection);
            let tells = key.is_none_or(|key| between.finishes(key));
            tells.then_some(action)
        }
        Action::Abort(_) | Action::Forge(..) => Some(action),
    }
}

impl<S: Stack> Stack for TlsStack<S> {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        let Some(layer) = &mut self.layer else { return self.stack.apply(now, action, programs) };
        let mut between = Between { layer, programs: &mut *programs };
        if let Some(action) = down(now, action, &mut between) {
            self.stack.apply(now, action, &mut between);
        }
        self.ask(now, programs);
    }

    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        let until = if self.has_actions() { now } else { until };
        let Some(layer) = &mut self.layer else { return self.stack.turn(now, until, programs) };
        let mut between = Between { layer, programs: &mut *programs };
        let after = self.stack.turn(now, until, &mut between);
        self.ask(after, programs);
        after
    }

    fn longest_turn(&self) -> Nanos {
        self.stack.longest_turn()
    }

    fn is_behind(&self) -> bool {
        self.stack.is_behind() || self.has_actions()
    }

    fn has_output(&self) -> bool {
        self.stack.has_output() || self.has_actions()
    }

    fn spin(&mut self, until: Nanos) -> Nanos {
        self.stack.spin(until)
    }

    fn open(&self) -> usize {
        self.stack.open()
    }

    fn look(&mut self, connection: Connection) -> Option<ConnectionSample> {
        self.stack.look(connection)
    }

    fn broken(&mut self) -> Option<Fault> {
        self.stack.broken()
    }
}
