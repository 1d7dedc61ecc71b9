//! The states that the ends of a control connection tell each other, one signed byte each.

use std::fmt;

use super::ControlError;

/// A state of a test. The numbers and names are iperf3's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// Server: all streams are there.
    TestStart = 1,
    /// Server: data may flow.
    TestRunning = 2,
    /// Client: enough has been sent or received.
    TestEnd = 4,
    /// Server: send the parameters.
    ParamExchange = 9,
    /// Server: open the streams.
    CreateStreams = 10,
    /// Server: it ends the test before its time.
    ServerTerminate = 11,
    /// Client: it ends the test before its time.
    ClientTerminate = 12,
    /// Server: send your results, mine follow.
    ExchangeResults = 13,
    /// Server: that was all.
    DisplayResults = 14,
    /// Not on the wire: before a test.
    IperfStart = 15,
    /// Client: goodbye.
    IperfDone = 16,
    /// Server: another test is running.
    AccessDenied = -1,
    /// Server: it cannot; two numbers follow.
    ServerError = -2,
}

impl State {
    const ALL: [State; 13] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParamExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::IperfStart,
        State::IperfDone,
        State::AccessDenied,
        State::ServerError,
    ];

    /// The state of this byte.
    ///
    /// # Errors
    /// [`ControlError::State`] where there is none.
    pub fn read(byte: u8) -> Result<State, ControlError> {
        let state = State::ALL.into_iter().find(|state| state.byte() == byte);
        state.ok_or(ControlError::State(byte))
    }

    /// The byte of this state.
    pub const fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }

    const fn name(self) -> &'static str {
        match self {
            State::TestStart => "TEST_START",
            State::TestRunning => "TEST_RUNNING",
            State::TestEnd => "TEST_END",
            State::ParamExchange => "PARAM_EXCHANGE",
            State::CreateStreams => "CREATE_STREAMS",
            State::ServerTerminate => "SERVER_TERMINATE",
            State::ClientTerminate => "CLIENT_TERMINATE",
            State::ExchangeResults => "EXCHANGE_RESULTS",
            State::DisplayResults => "DISPLAY_RESULTS",
            State::IperfStart => "IPERF_START",
            State::IperfDone => "IPERF_DONE",
            State::AccessDenied => "ACCESS_DENIED",
            State::ServerError => "SERVER_ERROR",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
