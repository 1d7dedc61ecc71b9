//! A message behind its head: bytes that are counted until its end. Nothing is kept.

use super::chunked::Step;
use super::{After, End, Framing, Progress, Side};
use crate::Bad;

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing: the message is over, and its end is to be said.
    End,
    /// The rest of a body by Content-Length.
    Length,
    /// All that comes.
    UntilClose,
    Chunked(Step),
}

/// A body that is being read.
#[derive(Debug)]
pub(super) struct Body {
    /// Bytes missing of the body, or of a chunk; the chunk's size while its digits come.
    pub remaining: u64,
    message_len: u64,
    body_len: u64,
    /// Bytes of a chunk's size line, or of a trailer section.
    pub line_len: u32,
    pub expected: Expected,
    after: After,
}

impl Body {
    /// Behind a head of `head_len` bytes.
    pub(super) fn new(framing: Framing, after: After, head_len: usize) -> Body {
        let expected = match framing {
            Framing::None | Framing::Tunnel | Framing::Length(0) => Expected::End,
            Framing::Length(_) => Expected::Length,
            Framing::Chunked => Expected::Chunked(Step::Size),
            Framing::UntilClose => Expected::UntilClose,
        };
        let remaining = if let Framing::Length(len) = framing { len } else { 0 };
        let message_len = head_len as u64;
        Body { remaining, message_len, body_len: 0, line_len: 0, expected, after }
    }

    pub(super) fn message_len(&self) -> u64 {
        self.message_len
    }

    pub(super) fn body_len(&self) -> u64 {
        self.body_len
    }

    fn end(&self) -> End {
        End { message_len: self.message_len, body_len: self.body_len, after: self.after }
    }

    /// Goes on by one event: a piece of the body, its end, or nothing more in these bytes.
    pub(super) fn read<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        side: Side,
        limit: u64,
    ) -> Result<Progress<'b>, Bad> {
        loop {
            match self.expected {
                Expected::End => return Ok(Progress::End(self.end())),
                _ if bytes.is_empty() => return Ok(Progress::More),
                Expected::Length => {
                    let data = self.data(bytes);
                    if self.remaining == 0 {
                        self.expected = Expected::End;
                    }
                    return Ok(Progress::Data(data));
                }
                Expected::UntilClose => {
                    self.remaining = u64::MAX;
                    return Ok(Progress::Data(self.data(bytes)));
                }
                Expected::Chunked(Step::Data) => {
                    let data = self.data(bytes);
                    if self.remaining == 0 {
                        self.expected = Expected::Chunked(Step::DataCr);
                    }
                    return Ok(Progress::Data(data));
                }
                Expected::Chunked(step) => {
                    let Some((&byte, rest)) = bytes.split_first() else {
                        return Ok(Progress::More);
                    };
                    *bytes = rest;
                    self.message_len += 1;
                    self.expected = self.chunk_framing(step, byte, side)?;
                    let allowed = limit.saturating_sub(self.body_len);
                    if self.expected == Expected::Chunked(Step::Data) && self.remaining > allowed {
                        return Err(Bad::BodyTooLong);
                    }
                }
            }
        }
    }

    /// What of these bytes is still missing of the body or chunk.
    fn data<'b>(&mut self, bytes: &mut &'b [u8]) -> &'b [u8] {
        let all = *bytes;
        let len = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(all.len());
        let (data, rest) = all.split_at_checked(len).unwrap_or((all, &[]));
        *bytes = rest;
        self.remaining -= len as u64;
        self.body_len += len as u64;
        self.message_len += len as u64;
        data
    }

    /// The connection ends here.
    pub(super) fn finish(&self) -> Result<End, Bad> {
        match self.expected {
            Expected::End | Expected::UntilClose => Ok(self.end()),
            Expected::Length | Expected::Chunked(_) => Err(Bad::BodyIncomplete),
        }
    }
}
